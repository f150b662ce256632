/** `sandkeep events`: what happens in a project. */

import { ApiError } from "../../client/client.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { plain, plainJson } from "../print/plain.ts";

export const eventsUsage = `Usage: sandkeep events [options]

Lists the last events of a project. docs/events.md describes them.

Options:
  -f, --follow             go on with new events until Ctrl-C; a broken connection is opened again
  --topics <list>          only these: sandbox, session, command, files, snapshot, policy, drive, image, webhook
${daemonUsage}
Example:
  sandkeep events -f --topics session,snapshot
`;

export async function eventsCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, eventsUsage, {
    follow: { type: "boolean", short: "f" },
    topics: { type: "string" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(eventsUsage, context);
  if (positionals.length > 0) throw misuse("Cannot list events: it takes no name", eventsUsage);
  const daemon = new Daemon(values, context);
  const query = { ...daemon.scope, ...(values.topics !== undefined && { topics: values.topics }) };
  const show = (event: Event) => context.print(values.json ? plainJson(event) : eventLine(event));
  const { events, next } = await daemon.ask("list events", daemon.client.call("readEvents", { query }));
  for (const event of events) show(event);
  if (!values.follow) return;
  try {
    for await (const event of daemon.client.events({ ...query, after: next })) show(event);
  } catch (error) {
    throw error instanceof ApiError ? new CliError(`Cannot follow events: ${error.message}`) : error;
  }
}

interface Event {
  type: string;
  at: number;
  cursor: string;
  [field: string]: unknown;
}

/** the time, the type, and the fields that people read */
export function eventLine({ type, at, cursor: _, sandboxId: __, ...fields }: Event): string {
  const values = Object.entries(fields).map(([name, value]) => `${name}=${String(value)}`);
  const time = new Date(at).toISOString().replace("T", " ").slice(0, 23);
  return plain(`${time}  ${type.padEnd(20)}  ${values.join(" ")}`).trimEnd();
}
