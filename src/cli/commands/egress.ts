/**
 * `sandkeep egress <sandbox>`: a sandbox's outbound connections, whether each was allowed, and a policy that would
 * allow them.
 */

import { Client } from "../client/client.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "../client/connection.ts";
import { readArgs } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import {
  type EgressEvent,
  type EgressHost,
  type EgressPort,
  eventHeader,
  eventRow,
  hostTable,
  portTable,
} from "../print/egress-table.ts";
import { plain, plainJson } from "../print/plain.ts";

export const egressUsage = `Usage: sandkeep egress <sandbox or session> [options]

Shows a sandbox's outbound connections, whether each was allowed, and the traffic with each host and through each of
its ports. The name of a sandbox stands for its last session.

Options:
  -f, --follow             continue until the session has ended
  --suggest                print the narrowest network policy that would have allowed these connections, and notes on stderr
  --json                   one JSON value a line
  --project <id>           the project of the sandbox (your team's first)
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
  const client = new Client({
    url: daemonUrl(values, context),
    key: apiKey(values["data-dir"], context),
  });
  const path = pathOf(name, values);
  if (values.suggest) return suggest(client, path, values.json ?? false, context);
  const columns = context.output.isTTY ? context.output.columns : undefined;
  await show(client, path, { follow: values.follow ?? false, json: values.json ?? false, columns }, context.print);
}

/** builds a path of the API with a query: of what was named, or of a session that an answer names */
type Path = (rest: string, query?: Record<string, string>, session?: string) => string;

function pathOf(name: string, { project, team }: { project?: string | undefined; team?: string | undefined }): Path {
  const isSession = /^sbx_[A-Za-z0-9]{20,64}$/.test(name);
  if (isSession && project !== undefined) throw new CliError(`Cannot use --project: "${name}" is a session`);
  return (rest, query = {}, session = isSession ? name : undefined) => {
    const base = session === undefined ? `sandboxes/${encodeURIComponent(name)}` : `sessions/${session}`;
    const ofProject = session === undefined && project !== undefined && { project };
    return `/sandkeep/v1/${base}${rest}?${new URLSearchParams({ ...query, ...ofProject, ...(team !== undefined && { team }) })}`;
  };
}

// docs/egress.md defines the daemon's answers; a client that checked them again would only break sooner.
interface Page {
  session: { id: string };
  events: EgressEvent[];
  next: number;
  more: boolean;
  hosts: EgressHost[];
  ports: EgressPort[];
  totals: object;
}

/** the request, for messages about refusals */
const what = "show the egress log";

async function show(
  client: Client,
  path: Path,
  { follow, json, columns }: { follow: boolean; json: boolean; columns: number | undefined },
  print: (line: string) => void,
): Promise<void> {
  const printEvent = (event: EgressEvent) => print(json ? plainJson(event) : eventRow(event, columns));
  // Print the header only after the first answer: a refusal has no table.
  const first = await rest(client, path, 0, printEvent, () => json || print(eventHeader(columns)));
  // The sandbox may get another session meanwhile.
  const session: Path = (rest, query) => path(rest, query, first.session.id);
  const last = follow ? await followed(client, session, first.next, printEvent) : first;
  const { hosts, ports, totals } = last;
  if (json) return print(plainJson({ hosts, ports, totals }));
  for (const table of [hostTable(hosts), portTable(ports)]) {
    if (table.length > 0) print("");
    for (const line of table) print(line);
  }
}

/** prints new events until the session has ended */
async function followed(client: Client, path: Path, after: number, print: (event: EgressEvent) => void): Promise<Page> {
  let position = after;
  for await (const line of client.lines(what, path("/egress", { follow: "true", after: String(after) }))) {
    const event = line as EgressEvent;
    print(event);
    position = event.id;
  }
  return rest(client, path, position, print);
}

/**
 * prints the events after a position, and calls `begin` with the first answer; returns the last page, which has the
 * totals
 */
async function rest(
  client: Client,
  path: Path,
  after: number,
  print: (event: EgressEvent) => void,
  begin?: () => void,
): Promise<Page> {
  const query = { after: String(after), limit: "1000" };
  const page = (await client.call(what, "GET", path("/egress", query))) as Page;
  begin?.();
  for (const event of page.events) print(event);
  return page.more ? rest(client, (rest, query) => path(rest, query, page.session.id), page.next, print) : page;
}

async function suggest(client: Client, path: Path, json: boolean, { print, warn }: EgressContext): Promise<void> {
  const answer = (await client.call("suggest a policy", "GET", path("/egress/suggestion"))) as {
    networkPolicy: object;
    notes: string[];
  };
  if (json) return print(plainJson(answer));
  print(JSON.stringify(answer.networkPolicy, null, 2));
  for (const note of answer.notes) warn(plain(note));
}
