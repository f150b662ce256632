/** `sandkeep recover`: lists items of a data directory that its database does not know, and adopts them. */

import { parseArgs } from "node:util";
import { SandkeepError } from "../../core/model/errors.ts";
import { type AdoptionContext, adoptUnknown } from "../../core/recovery/adoption.ts";
import { type Belonging, bindAnyway } from "../../core/recovery/identity.ts";
import { entriesOf, takeInventory, type Unknown } from "../../core/recovery/unknown.ts";
import { damagedRecords } from "./damaged-records.ts";

export const recoverUsage = `Usage: sandkeep recover [--adopt]

Lists the machines, snapshots and drives of the data directory that the database does not know, and records that are
damaged and have no good copy. The daemon must not run.
The database is the one that "sandkeep serve" would use (SANDKEEP_DATABASE_URL, or the data directory's own file).

Options:
  --adopt                  put them on record, and bind the data directory and the database to each other
  --data-dir <directory>   where Sandkeep keeps everything (SANDKEEP_DATA_DIR)
  --run-dir <directory>    where its sockets are (SANDKEEP_RUN_DIR)
`;

/** A data directory and its database, opened without a daemon. */
export interface RecoveryPlace extends AsyncDisposable {
  context: AdoptionContext;
  belonging: Belonging;
}

export interface RecoverContext {
  /** `args` are those of "sandkeep serve"; `create` allows it to make a missing database */
  open(args: string[], options: { create: boolean }): Promise<RecoveryPlace>;
  /** an identity for a directory and a database without one */
  freshIdentity(): string;
  print(line: string): void;
}

export async function recoverCommand(args: string[], context: RecoverContext): Promise<void> {
  const { adopt = false, help, ...places } = parse(args);
  if (help) return context.print(recoverUsage.trimEnd());
  const passed = Object.entries(places).flatMap(([flag, value]) => [`--${flag}`, String(value)]);
  await using place = await context.open(passed, { create: adopt });
  const { unknown } = await takeInventory(place.context.store, place.context.runtime);
  for (const line of listed(unknown, place.context)) context.print(line);
  for (const path of damagedRecords(place.belonging.directory)) context.print(damaged(path));
  if (!adopt) {
    if (entriesOf(unknown).length > 0) context.print('Run "sandkeep recover --adopt" to put all of it on record.');
    return;
  }
  await bindAnyway(place.belonging, context.freshIdentity());
  const { sandboxes, sessions, snapshots, drives, left } = await adoptUnknown(place.context);
  for (const sentence of left) context.print(`left: ${sentence}`);
  for (const name of sandboxes) context.print(`adopted sandbox "${name}"`);
  context.print(
    `Adopted ${sandboxes.length} sandboxes, ${sessions} sessions, ${snapshots} snapshots, ${drives} drives.`,
  );
  context.print(
    'Start the daemon with "sandkeep serve". Keys of teams and the list of past commands are not recovered.',
  );
}

function damaged(path: string): string {
  const record = path.slice(0, -".damaged".length);
  return `damaged   "${path}": restore "${record}" from a backup, or delete the damaged file to give up what it was about`;
}

function listed(unknown: Unknown, { files }: AdoptionContext): string[] {
  if (entriesOf(unknown).length === 0) return ["Nothing is unknown to the database."];
  const ofSandbox = (kind: "machine" | "snapshot", id: string) => {
    const name = files.description(kind, id)?.sandbox?.name;
    return name === undefined ? "of an unknown sandbox" : `of sandbox "${name}"`;
  };
  return [
    ...unknown.live.map((id) => `machine   ${id}  ${ofSandbox("machine", id)}, running`),
    ...unknown.ended.map(
      ({ machineId, endedAt }) =>
        `machine   ${machineId}  ${ofSandbox("machine", machineId)}, ended ${new Date(endedAt).toISOString()}`,
    ),
    ...unknown.snapshots.map(
      ({ id, size, createdAt }) =>
        `snapshot  ${id}  ${ofSandbox("snapshot", id)}, ${Math.ceil(size / 1e6)} MB, ${new Date(createdAt).toISOString()}`,
    ),
    ...unknown.drives.map(
      (id) => `drive     ${id}  "${files.description("drive", id)?.drive?.name ?? "of no known name"}"`,
    ),
  ];
}

function parse(args: string[]) {
  const options = {
    adopt: { type: "boolean" },
    help: { type: "boolean", short: "h" },
    "data-dir": { type: "string" },
    "run-dir": { type: "string" },
  } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (cause) {
    const why = (cause instanceof Error ? cause.message : String(cause)).split(". ")[0];
    throw new SandkeepError("invalid", `Cannot recover: ${why}\n\n${recoverUsage}`, { cause });
  }
}
