/** `sandkeep events`: what happens in a project. */

import { ApiError } from "../../client/client.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { plain, plainJson } from "../print/plain.ts";
import { countOf, durationOf } from "../units.ts";

export const eventsUsage = `Usage: sandkeep events [options]

Lists the last events of a project, at most 500. docs/events.md describes them. A line "gap" says that events may be
missing at this place.

Options:
  -f, --follow             go on with new events until Ctrl-C; a broken connection is opened again
  --since <duration>       of past events only those of this time, such as 10m or 12h
  --limit <count>          of past events only the last ones; with -f, 0 begins with new events
  --topics <list>          only these: sandbox, session, command, files, snapshot, policy, drive, image, webhook
${daemonUsage}
Example:
  sandkeep events -f --limit 10 --topics session,snapshot
`;

export async function eventsCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, eventsUsage, {
    follow: { type: "boolean", short: "f" },
    since: { type: "string" },
    limit: { type: "string" },
    topics: { type: "string" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(eventsUsage, context);
  if (positionals.length > 0) throw misuse("Cannot list events: it takes no name", eventsUsage);
  const past: Past = {
    ...(values.since !== undefined && { from: context.now() - durationOf("--since", values.since) }),
    ...(values.limit !== undefined && { limit: countOf("--limit", values.limit) }),
  };
  const daemon = new Daemon(values, context);
  const query = { ...daemon.scope, ...(values.topics !== undefined && { topics: values.topics }) };
  const show = (event: Event) => context.print(values.json ? plainJson(event) : eventLine(event));
  const { events, next } = await daemon.ask("list events", daemon.client.call("readEvents", { query }));
  for (const event of pastOf(events, past)) show(event);
  if (!values.follow) return;
  try {
    for await (const event of daemon.client.events({ ...query, after: next })) show(event);
  } catch (error) {
    throw error instanceof ApiError ? new CliError(`Cannot follow events: ${error.message}`) : error;
  }
}

/** Which past events are shown. */
interface Past {
  /** ms since 1970 */
  from?: number;
  /** how many, the last ones */
  limit?: number;
}

/** `events`: oldest first */
export function pastOf<E extends { at: number }>(events: E[], { from = 0, limit = events.length }: Past): E[] {
  const shown = events.filter(({ at }) => at >= from);
  return shown.slice(Math.max(0, shown.length - limit));
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
  if (type === "gap") values.push("events may be missing here: they are not kept any longer, or the daemon crashed");
  const time = new Date(at).toISOString().replace("T", " ").slice(0, 23);
  return plain(`${time}  ${type.padEnd(20)}  ${values.join(" ")}`).trimEnd();
}
