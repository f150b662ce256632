/**
 * `sandkeep egress <sandbox>`: a sandbox's outbound connections, whether each was allowed, and a policy that would
 * allow them.
 */

import type { Output } from "../../client/types.ts";
import { streamed } from "../client/broken-stream.ts";
import type { KeyPlaces } from "../client/connection.ts";
import { Daemon } from "../client/daemon.ts";
import { readArgs } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { type EgressEvent, eventHeader, eventRow, hostTable, portTable } from "../print/egress-table.ts";
import { plain, plainJson } from "../print/plain.ts";

export const egressUsage = `Usage: sandkeep egress <sandbox or session> [options]

Shows a sandbox's outbound connections, whether each was allowed, and the traffic with each host and through each of
its ports. The name of a sandbox stands for its last session.

Options:
  -f, --follow             continue until the session has ended
  --suggest                print the narrowest network policy that would have allowed these connections, and notes on stderr
  --json                   one JSON value a line
  --project <id or name>   the project of the sandbox (your team's first)
  --team <id or name>      with an admin key: the team to act for
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  sandkeep egress -f demo
`;

export interface EgressContext extends KeyPlaces {
  /** where it prints; cut to its width if it is a terminal */
  output: { isTTY?: boolean | undefined; columns?: number };
  print(line: string): void;
  warn(line: string): void;
}

export async function egressCommand(args: string[], context: EgressContext): Promise<void> {
  const { values, positionals } = await readArgs(args, egressUsage, {
    follow: { type: "boolean", short: "f" },
    suggest: { type: "boolean" },
    json: { type: "boolean" },
    project: { type: "string" },
    team: { type: "string" },
    url: { type: "string" },
    "data-dir": { type: "string" },
  });
  if (values.help) return context.print(egressUsage.trimEnd());
  const [name, ...rest] = positionals;
  if (name === undefined || name === "" || rest.length > 0) {
    throw misuse("Cannot show an egress log: name one sandbox or session", egressUsage);
  }
  if (values.suggest && values.follow) throw new CliError("Cannot suggest a policy while following the log");
  const isSession = /^sbx_[A-Za-z0-9]{20,64}$/.test(name);
  if (isSession && values.project !== undefined) throw new CliError(`Cannot use --project: "${name}" is a session`);
  const daemon = new Daemon(values, context);
  const place: Place = isSession
    ? { params: { session: name }, query: daemon.team }
    : { params: { sandbox: name }, query: daemon.scope };
  const { follow = false, json = false } = values;
  if (values.suggest) return suggest(daemon, place, json, context);
  const columns = context.output.isTTY ? context.output.columns : undefined;
  await show(daemon, place, { follow, json, columns }, context.print);
}

/** whose log: that of a session, or of the last session of a sandbox */
interface Place {
  params: { session: string } | { sandbox: string };
  query: { team?: string; project?: string };
}

type Page = Output<"readEgressLog">;

/** the request, for messages about refusals */
const what = "show the egress log";

async function show(
  daemon: Daemon,
  place: Place,
  { follow, json, columns }: { follow: boolean; json: boolean; columns: number | undefined },
  print: (line: string) => void,
): Promise<void> {
  const printEvent = (event: EgressEvent) => print(json ? plainJson(event) : eventRow(event, columns));
  // Print the header only after the first answer: a refusal has no table.
  const first = await rest(daemon, place, 0, printEvent, () => json || print(eventHeader(columns)));
  const last = follow ? await followed(daemon, sessionOf(daemon, first), first.next, printEvent) : first;
  const { hosts, ports, totals } = last;
  if (json) return print(plainJson({ hosts, ports, totals }));
  for (const table of [hostTable(hosts), portTable(ports)]) {
    if (table.length > 0) print("");
    for (const line of table) print(line);
  }
}

/** a refusal names the sandbox that was probably meant */
function asked<T>(daemon: Daemon, params: Place["params"], request: string, answer: Promise<T>): Promise<T> {
  return "sandbox" in params ? daemon.askAbout(params.sandbox, request, answer) : daemon.ask(request, answer);
}

/** a sandbox may get another session meanwhile */
function sessionOf({ team: query }: Daemon, { session }: Page): Place {
  return { params: { session: session.id }, query };
}

/** prints new events until the session has ended */
async function followed(
  daemon: Daemon,
  { params, query }: Place,
  after: number,
  print: (event: EgressEvent) => void,
): Promise<Page> {
  let position = after;
  const events = daemon.client.lines("readEgressLog", { params, query: { ...query, follow: true, after } });
  for await (const event of streamed(daemon, what, events)) {
    print(event);
    position = event.id;
  }
  return rest(daemon, { params, query }, position, print);
}

/**
 * prints the events after a position, and calls `begin` with the first answer; returns the last page, which has the
 * totals
 */
async function rest(
  daemon: Daemon,
  { params, query }: Place,
  after: number,
  print: (event: EgressEvent) => void,
  begin?: () => void,
): Promise<Page> {
  const input = { params, query: { ...query, after, limit: 1000 } };
  const page = await asked(daemon, params, what, daemon.client.call("readEgressLog", input));
  begin?.();
  for (const event of page.events) print(event);
  return page.more ? rest(daemon, sessionOf(daemon, page), page.next, print) : page;
}

async function suggest(daemon: Daemon, place: Place, json: boolean, { print, warn }: EgressContext): Promise<void> {
  const answer = await asked(daemon, place.params, "suggest a policy", daemon.client.call("suggestPolicy", place));
  if (json) return print(plainJson(answer));
  print(JSON.stringify(answer.networkPolicy, null, 2));
  for (const note of answer.notes) warn(plain(note));
}
