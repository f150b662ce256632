/** `sandkeep recover`: lists items of a data directory that its database does not know, and adopts them. */

import { parseArgs } from "node:util";
import { counted } from "../../base/counted.ts";
import { optionProblem } from "../../base/similar.ts";
import { sizeInWords } from "../../base/size-in-words.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { type AdoptionContext, adoptUnknown } from "../../core/recovery/adoption.ts";
import { type BoundPair, bindAnyway } from "../../core/recovery/identity.ts";
import { takeInventory, type Unknown } from "../../core/recovery/unknown.ts";
import { damagedRecords } from "./damaged-records.ts";

export const recoverUsage = `Usage: sandkeep recover [--adopt] [--json]

Lists the machines, snapshots and drives of the data directory that the database does not know, and records that are
damaged and have no good copy. The daemon must not run.
The database is the one that "sandkeep serve" would use (SANDKEEP_DATABASE_URL, or the data directory's own file).

Options:
  --adopt                  put them on record, and bind the data directory and the database to each other
  --json                   print JSON
  --data-dir <directory>   where Sandkeep keeps everything (SANDKEEP_DATA_DIR)
  --run-dir <directory>    where its sockets are (SANDKEEP_RUN_DIR)

Example:
  sandkeep recover --adopt
`;

/** A data directory and its database, opened without a daemon. */
export interface RecoveryPlace extends AsyncDisposable {
  context: AdoptionContext;
  pair: BoundPair;
  /** the command line that starts the daemon on these directories */
  serveCommand: string;
}

export interface RecoverContext {
  /** `args` are those of "sandkeep serve"; `create` allows it to make a missing database */
  open(args: string[], options: { create: boolean }): Promise<RecoveryPlace>;
  /** an identity for a directory and a database without one */
  freshIdentity(): string;
  print(line: string): void;
}

export async function recoverCommand(args: string[], context: RecoverContext): Promise<void> {
  const { adopt = false, json = false, help, ...places } = parse(args);
  if (help) return context.print(recoverUsage.trimEnd());
  const passed = Object.entries(places).flatMap(([flag, value]) => [`--${flag}`, String(value)]);
  await using place = await context.open(passed, { create: adopt });
  const { unknown } = await takeInventory(place.context.store, place.context.runtime);
  const found: Found = {
    unknown: itemsOf(unknown, place.context),
    damaged: damagedRecords(place.pair.directory),
  };
  if (!json) for (const line of listed(found)) context.print(line);
  const adopted = adopt ? await adoptAll(place, context.freshIdentity()) : undefined;
  if (json) return context.print(JSON.stringify({ ...found, ...(adopted && { adopted }) }));
  if (adopted) for (const line of report(adopted, place)) context.print(line);
  else if (found.unknown.length > 0)
    context.print(`To put all of it on record, run: ${place.context.files.recoverCommand} --adopt`);
}

/** What `recover` lists. */
interface Found {
  unknown: Item[];
  /** paths of damaged records */
  damaged: string[];
}

/** A machine, snapshot or drive that the database does not know; times are ISO 8601, sizes bytes. */
type Item =
  | { kind: "machine"; id: string; sandbox?: string; isPaused?: true; endedAt?: string }
  | { kind: "snapshot"; id: string; sandbox?: string; size: number; createdAt: string }
  | { kind: "drive"; id: string; name?: string };

type Adopted = Awaited<ReturnType<typeof adoptUnknown>>;

async function adoptAll({ pair, context }: RecoveryPlace, freshIdentity: string): Promise<Adopted> {
  await bindAnyway(pair, freshIdentity);
  return adoptUnknown(context);
}

function itemsOf(unknown: Unknown, { files, runtime }: AdoptionContext): Item[] {
  const ofSandbox = (kind: "machine" | "snapshot", id: string) => {
    const sandbox = files.description(kind, id)?.sandbox?.name;
    return sandbox === undefined ? {} : { sandbox };
  };
  const ofDrive = (id: string) => {
    const name = files.description("drive", id)?.drive?.name;
    return name === undefined ? {} : { name };
  };
  return [
    ...unknown.live.map((id) => {
      const isPaused = runtime.machine(id)?.isPaused;
      return { kind: "machine" as const, id, ...ofSandbox("machine", id), ...(isPaused && { isPaused }) };
    }),
    ...unknown.ended.map(({ machineId: id, endedAt }) => {
      return { kind: "machine" as const, id, ...ofSandbox("machine", id), endedAt: iso(endedAt) };
    }),
    ...unknown.snapshots.map(({ id, size, createdAt }) => {
      return { kind: "snapshot" as const, id, ...ofSandbox("snapshot", id), size, createdAt: iso(createdAt) };
    }),
    ...unknown.drives.map((id) => ({ kind: "drive" as const, id, ...ofDrive(id) })),
  ];
}

function listed({ unknown, damaged }: Found): string[] {
  const items = unknown.length === 0 ? ["The database knows everything that is here."] : unknown.map(lineOf);
  return [...items, ...damaged.map(damagedLine)];
}

function report({ sandboxes, sessions, snapshots, drives, left }: Adopted, { serveCommand }: RecoveryPlace): string[] {
  const counts = [
    counted(sandboxes.length, "sandbox", "sandboxes"),
    counted(sessions, "session"),
    counted(snapshots, "snapshot"),
    counted(drives, "drive"),
  ];
  return [
    ...left.map((sentence) => `left: ${sentence}`),
    ...sandboxes.map((name) => `adopted sandbox "${name}"`),
    `Adopted ${counts.join(", ")}.`,
    "Keys of teams and the list of past commands are not recovered.",
    `To start the daemon, run: ${serveCommand}`,
  ];
}

function lineOf(item: Item): string {
  const start = `${item.kind.padEnd(8)}  ${item.id}  `;
  if (item.kind === "drive") return `${start}${item.name === undefined ? "of unknown name" : `"${item.name}"`}`;
  const sandbox = item.sandbox === undefined ? "of an unknown sandbox" : `of sandbox "${item.sandbox}"`;
  if (item.kind === "snapshot") {
    return `${start}${sandbox}, ${sizeInWords(item.size)}, ${item.createdAt}`;
  }
  if (item.endedAt !== undefined) return `${start}${sandbox}, ended ${item.endedAt}`;
  return `${start}${sandbox}, ${item.isPaused ? "paused" : "running"}`;
}

function damagedLine(path: string): string {
  const record = path.slice(0, -".damaged".length);
  return `damaged   "${path}": restore "${record}" from a backup, or delete the damaged file and lose what it describes`;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}

function parse(args: string[]) {
  const options = {
    adopt: { type: "boolean" },
    json: { type: "boolean" },
    help: { type: "boolean", short: "h" },
    "data-dir": { type: "string" },
    "run-dir": { type: "string" },
  } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (cause) {
    const why = optionProblem(cause, Object.keys(options));
    throw new SandkeepError("invalid", `Cannot recover: ${why}\n\n${recoverUsage}`, { cause });
  }
}
