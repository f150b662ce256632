/** A run step by step: something must happen between its sandbox and its program. */

import type { Daemon } from "../client/daemon.ts";
import { type CommandContext, exitCodes } from "../command.ts";
import { Folders } from "../files/run-folders.ts";
import { runProgram } from "./program.ts";
import { afterwardsOf, announce, finished, remove, type Wanted, whilePulling } from "./run.ts";

export async function stepByStep(daemon: Daemon, wanted: Wanted, context: CommandContext): Promise<number> {
  const { sandbox: body, keep, sync, volumes } = wanted;
  const left = new AbortController();
  const asked = daemon.client.call("createSandbox", { query: daemon.scope, body, signal: left.signal });
  const making = whilePulling(daemon, body.image, daemon.ask("make a sandbox", asked), context);
  const { code: ending, made } = await finished(making, context, () => left.abort());
  if (made === undefined) {
    // The daemon deletes what it makes for a client that has gone, unless the client can find it by its name.
    if (body.name !== undefined)
      context.warn(`The sandbox "${body.name}" may be made nevertheless; sandkeep rm -f ${body.name} deletes it`);
    return ending;
  }
  const { name, session } = made;
  let isKept = keep;
  try {
    if (ending !== undefined) return ending;
    await announce(made, keep, context);
    const folders = new Folders(daemon, session, volumes);
    const interrupted = await signalBefore(folders.copyIn(context), context.signals);
    if (interrupted !== undefined) return interrupted;
    const spec = { ...wanted, session: session.id, cwd: wanted.cwd ?? folders.first };
    const code = await runProgram(daemon, { ...spec, afterwards: afterwardsOf(name, keep) }, context);
    if (sync) {
      // Its changes are nowhere else.
      isKept = true;
      let isAll = false;
      const stopped = await untilSignal(async (signal) => {
        isAll = await folders.bringBack(name, context, signal);
      }, context.signals);
      if (!isAll) {
        context.warn(`Not all changes were brought back. The sandbox "${name}" stays until its time is over`);
        context.warn(`sandkeep cp ${name}:${folders.first} . copies from it, and sandkeep rm -f ${name} deletes it`);
        return stopped ?? code;
      }
      isKept = keep;
    }
    return code;
  } finally {
    if (!isKept) await remove(daemon, name, context);
  }
}

/** the exit code for a signal that ended the work early, which has then deleted what it made; undefined if it is done */
async function untilSignal(
  work: (signal: AbortSignal) => Promise<void>,
  signals: NodeJS.EventEmitter,
): Promise<number | undefined> {
  const abort = new AbortController();
  let code: number | undefined;
  const listener = (name: keyof typeof exitCodes) => {
    code = exitCodes[name];
    abort.abort();
  };
  for (const name of Object.keys(exitCodes)) signals.on(name, listener);
  try {
    await work(abort.signal);
    return undefined;
  } catch (error) {
    if (code === undefined) throw error;
    return code;
  } finally {
    for (const name of Object.keys(exitCodes)) signals.off(name, listener);
  }
}

/** the exit code for a signal that comes before the work is done; undefined if none does */
async function signalBefore(work: Promise<void>, signals: NodeJS.EventEmitter): Promise<number | undefined> {
  const { promise: signal, resolve: received } = Promise.withResolvers<number>();
  const listener = (name: keyof typeof exitCodes) => received(exitCodes[name]);
  for (const name of Object.keys(exitCodes)) signals.on(name, listener);
  try {
    return (await Promise.race([work, signal])) ?? undefined;
  } finally {
    for (const name of Object.keys(exitCodes)) signals.off(name, listener);
    // What it was doing fails when the sandbox is deleted.
    void work.catch(() => undefined);
  }
}
