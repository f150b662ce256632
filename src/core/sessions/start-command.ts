/** Starts what an image says that a sandbox runs from its boot on, and waits until the sandbox is ready. */

import { after } from "../../base/waits.ts";
import { shellLine } from "../commands/login-shell.ts";
import type { Context } from "../context.ts";
import { trustEnvironment, trusted } from "../images/trust.ts";
import { SandkeepError } from "../model/errors.ts";
import type { StartCommand } from "../model/image.ts";
import type { Session } from "../model/sandbox.ts";
import type { Machine } from "../ports/runtime.ts";
import { openEnvironment } from "../sandboxes/environments.ts";

/** longest time until a sandbox is ready, in ms */
const patience = 60_000;
/** between two calls of the ready command, in ms */
const pause = 50;
/** bytes of output that are kept */
const outputLimit = 1 << 20;

export async function startCommand(
  context: Context,
  machine: Machine,
  session: Session,
  { command, ready }: StartCommand,
): Promise<void> {
  await trusted(machine);
  const run = (line: string, timeLimit?: number) =>
    machine.exec({
      id: context.ids.command(),
      argv: shellLine(line),
      cwd: session.cwd,
      user: session.user,
      env: {
        ...trustEnvironment(session.networkPolicy, context),
        ...openEnvironment(session.env, context.seal),
      },
      outputLimit,
      ...(timeLimit !== undefined && { timeLimit }),
    });
  const begin = context.now();
  if (command !== undefined) await run(command);
  if (ready === undefined) return;
  for (;;) {
    const left = begin + patience - context.now();
    if (left <= 0) {
      const seconds = patience / 1000;
      throw new SandkeepError("timeout", `Cannot start the sandbox: it was not ready within ${seconds} s`);
    }
    const { code, timedOut } = await (await run(ready, left)).exited;
    if (code === 0 && !timedOut) return;
    await after(pause);
  }
}
