/** The program that an image is made for (ENTRYPOINT and CMD), and the signal that asks it to end (STOPSIGNAL). */

import { after } from "../../base/concurrency/waits.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { ImageConfig } from "../model/image.ts";
import type { Command } from "../model/sandbox.ts";
import type { ImageInfo } from "../ports/images.ts";
import type { Machine, Process } from "../ports/runtime.ts";

type Program = Pick<ImageConfig, "entrypoint" | "command">;

const terminate = 15;
/** the kernel's names in the order of their numbers, from 1 */
const signalNames =
  "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS".split(
    " ",
  );
/** the C library uses the first two of the kernel's real-time signals itself */
const firstRealTime = 34;
const lastRealTime = 64;

/** the image's program with its own arguments, or with those that the caller gives instead */
export function imageCommand(image: ImageInfo | undefined, args: string[]): [name: string, ...args: string[]] {
  const { entrypoint = [], command = [] } = image?.config ?? {};
  const [name, ...rest] = [...entrypoint, ...(args.length > 0 ? args : command)];
  if (name !== undefined && name !== "") return [name, ...rest];
  const which = image ? `the image "${image.name}"` : "the sandbox's image";
  throw new SandkeepError("invalid", `Cannot run the command of the image: ${which} has neither ENTRYPOINT nor CMD`);
}

/** the image of a machine, in the version that it booted from */
export async function imageOf({ runtime }: Pick<Context, "runtime">, machine: Machine): Promise<ImageInfo | undefined> {
  return machine.image === undefined ? undefined : runtime.images.get(machine.image);
}

/** asks all commands of a machine to end, and waits until they have, for at most `grace` ms */
export async function askToEnd(
  context: Pick<Context, "runtime" | "store">,
  machine: Machine,
  grace: number,
): Promise<void> {
  const config = (await imageOf(context, machine))?.config;
  const commands = new Map((await context.store.openCommands(machine.id)).map((command) => [command.id, command]));
  const running = machine.processes();
  const ends = running.map((process) => ended(process, config, commands.get(process.id)));
  await Promise.race([Promise.all(ends), after(grace)]);
}

/** resolves when it has ended. One that cannot be asked ends with its machine */
async function ended(process: Process, config: ImageConfig | undefined, command: Command | undefined): Promise<void> {
  const isMain = config !== undefined && command !== undefined && isProgramOf(config, command);
  const asked = isMain ? process.signal(stopSignal(config), { alone: true }) : process.signal(terminate);
  await asked.then(() => process.exited).catch(() => undefined);
}

/** whether a command is the image's program, with whatever arguments */
export function isProgramOf({ entrypoint, command }: Program, { name, args }: Pick<Command, "name" | "args">): boolean {
  const expected = entrypoint.length > 0 ? entrypoint : command;
  const words = [name, ...args];
  return expected.length > 0 && expected.every((word, index) => words[index] === word);
}

/** the number of a signal such as SIGINT, INT, 2 or SIGRTMIN+3; SIGTERM for any other text */
export function stopSignal({ stopSignal: text = "" }: Pick<ImageConfig, "stopSignal">): number {
  const name = text.toUpperCase().replace(/^SIG/, "");
  const [, sign, offset] = /^RTM(?:IN(\+)|AX-)(\d{1,2})$/.exec(name) ?? [];
  let number = signalNames.indexOf(name) + 1;
  if (offset !== undefined) number = sign === "+" ? firstRealTime + Number(offset) : lastRealTime - Number(offset);
  if (/^\d{1,2}$/.test(name)) number = Number(name);
  return number >= 1 && number <= lastRealTime ? number : terminate;
}
