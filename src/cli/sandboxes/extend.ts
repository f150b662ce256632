/** `sandkeep extend`: gives running sandboxes more time. */

import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse, Refusal } from "../errors.ts";
import { plainJson } from "../print/plain.ts";
import { briefly } from "../print/table.ts";
import { durationInWords, durationOf } from "../units.ts";

export const extendUsage = `Usage: sandkeep extend [options] <sandbox> <duration>

Lets a running sandbox run longer, by this much beyond its present end. sandkeep ls shows when that is.

Options:
${daemonUsage}
Example:
  sandkeep extend demo 30m
`;

export async function extendCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, extendUsage, daemonOptions);
  if (values.help) return showUsage(extendUsage, context);
  const [sandbox, length, ...rest] = positionals;
  if (!sandbox || length === undefined || rest.length > 0)
    throw misuse("Cannot extend: give a sandbox and a duration", extendUsage);
  const duration = durationOf("the duration", length);
  const daemon = new Daemon(values, context);
  const input = { params: { sandbox }, query: daemon.scope, body: { duration } };
  const asked = daemon.client.call("extendSession", input);
  const session = await daemon.askAbout(sandbox, `extend "${sandbox}"`, asked).catch((error: unknown) => {
    throw inDurations(error);
  });
  context.print(values.json ? plainJson(session) : sandbox);
  if (session.expiresAt !== null) context.warn(`It ends in ${briefly(session.expiresAt - context.now())}`);
}

/** the API counts milliseconds */
export function inDurations(error: unknown): unknown {
  if (!(error instanceof Refusal)) return error;
  const [limit, sign, length] = /`duration` should be ([<>])= (\d+)/.exec(error.message) ?? [];
  if (limit === undefined) return error;
  const words = `the duration should be at ${sign === "<" ? "most" : "least"} ${durationInWords(Number(length))}`;
  return new CliError(error.message.replace(limit, words));
}
