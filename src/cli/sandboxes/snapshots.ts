/** `sandkeep snapshot`, `fork` and `restore`: keep the files of a sandbox, copy it, bring it back. */

import { sizeInWords } from "../../base/size-in-words.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { plainJson } from "../print/plain.ts";
import { briefly, printTable } from "../print/table.ts";
import { durationOf } from "../units.ts";
import { unknownVerb, verbOf } from "../verbs.ts";

export const snapshotUsage = `Usage: sandkeep snapshot create [options] <sandbox>
       sandkeep snapshot keep [options] <snapshot>
       sandkeep snapshot ls [options] [sandbox]
       sandkeep snapshot rm [options] <id or name>...

Keeps the files of a running sandbox, which runs on; lists what is kept; deletes it. create prints the snapshot's id. keep
names a snapshot by its id or its name, and keeps it for ever, or as long as --expires says.

Options:
  --name <name>            with create and keep: a name for the snapshot
  --expires <duration>     with create and keep: how long after its last use it is deleted, such as 12h or 30d
${daemonUsage}
Example:
  sandkeep snapshot create demo --name before-upgrade
  sandkeep snapshot keep before-upgrade
`;

export const forkUsage = `Usage: sandkeep fork [options] <sandbox> [name]

Makes a sandbox with the files and settings of another, which runs on. Prints the new one's name.

Options:
${daemonUsage}
Example:
  sandkeep fork demo experiment
`;

export const restoreUsage = `Usage: sandkeep restore [options] <sandbox> <snapshot>

Stops a sandbox and starts it again with the files of a snapshot, which is named by its id or its name. If the sandbox is
persistent, its files of now are kept as a snapshot, too.

Options:
${daemonUsage}
Example:
  sandkeep restore demo before-upgrade
`;

export async function snapshotCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, snapshotUsage, {
    name: { type: "string" },
    expires: { type: "string" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(snapshotUsage, context);
  const [given = "", ...names] = positionals;
  const verb = verbOf(given);
  const fits = { create: names.length === 1, keep: names.length === 1, ls: names.length <= 1, rm: names.length > 0 }[
    verb
  ];
  if (fits === undefined) throw misuse(unknownVerb("snapshot", given, ["create", "keep", "ls", "rm"]), snapshotUsage);
  if (!fits) throw misuse(`Cannot do "snapshot ${given}": the names do not fit`, snapshotUsage);
  for (const option of ["name", "expires"] as const)
    if (values[option] !== undefined && verb !== "create" && verb !== "keep")
      throw new CliError(`Cannot use --${option} with "snapshot ${given}": it is for create and keep`);
  const expiration = values.expires === undefined ? undefined : durationOf("--expires", values.expires);
  const daemon = new Daemon(values, context);
  const [name = ""] = names;
  const json = values.json ?? false;
  if (verb === "ls") return list(daemon, names[0], json, context);
  if (verb === "rm") return remove(daemon, names, json, context);
  const body = {
    ...(values.name !== undefined && { name: values.name }),
    ...(expiration !== undefined && { expiration }),
  };
  if (verb === "keep") return keep(daemon, name, { expiration: 0, ...body }, json, context);
  const input = { params: { sandbox: name }, query: daemon.scope, body };
  const made = await daemon.askAbout(name, `keep the files of "${name}"`, daemon.client.call("createSnapshot", input));
  context.print(json ? plainJson(made) : made.id);
}

export async function forkCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, forkUsage, daemonOptions);
  if (values.help) return showUsage(forkUsage, context);
  const [sandbox, name, ...rest] = positionals;
  if (!sandbox || rest.length > 0) throw misuse("Cannot fork: name a sandbox, and at most one new name", forkUsage);
  const daemon = new Daemon(values, context);
  const input = { params: { sandbox }, query: daemon.scope, body: name === undefined ? {} : { name } };
  const made = await daemon.askAbout(sandbox, `fork "${sandbox}"`, daemon.client.call("forkSandbox", input));
  context.print(values.json ? plainJson(made) : made.name);
}

export async function restoreCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, restoreUsage, daemonOptions);
  if (values.help) return showUsage(restoreUsage, context);
  const [sandbox, wanted, ...rest] = positionals;
  if (!sandbox || !wanted || rest.length > 0)
    throw misuse("Cannot restore: name a sandbox and a snapshot", restoreUsage);
  const daemon = new Daemon(values, context);
  const { client } = daemon;
  const what = `restore "${sandbox}"`;
  const named = { params: { sandbox }, query: daemon.scope };
  const { state } = await daemon.askAbout(sandbox, what, client.call("getSandbox", named));
  const currentSnapshotId = await snapshotNamed(daemon, wanted, what);
  if (!["stopped", "failed", "aborted"].includes(state)) await daemon.ask(what, client.call("stopSession", named));
  await daemon.ask(what, client.call("changeSandbox", { ...named, body: { currentSnapshotId } }));
  const restored = await daemon.ask(what, client.call("resumeSandbox", named));
  context.print(values.json ? plainJson(restored) : sandbox);
}

/** the id of a snapshot, given by its id or its name; of several with one name the newest */
export async function snapshotNamed(daemon: Daemon, wanted: string, what: string): Promise<string> {
  const query = { ...daemon.scope, name: wanted, limit: 1 };
  const { snapshots } = await daemon.ask(what, daemon.client.call("listSnapshots", { query }));
  if (snapshots[0]) return snapshots[0].id;
  const input = { params: { snapshot: wanted }, query: daemon.team };
  const found = await daemon.client.call("getSnapshot", input).catch((cause) => {
    throw new CliError(`Cannot ${what}: ${cause.message}`, "sandkeep snapshot ls lists the snapshots");
  });
  return found.id;
}

async function keep(daemon: Daemon, name: string, body: object, json: boolean, context: CommandContext) {
  const what = `keep the snapshot "${name}"`;
  const input = { params: { snapshot: await snapshotNamed(daemon, name, what) }, query: daemon.team, body };
  const kept = await daemon.ask(what, daemon.client.call("changeSnapshot", input));
  context.print(json ? plainJson(kept) : kept.id);
  if (kept.expiresAt !== null) context.warn(`It expires in ${briefly(kept.expiresAt - context.now())}`);
  return undefined;
}

async function list(daemon: Daemon, sandbox: string | undefined, json: boolean, context: CommandContext) {
  const filter = { ...daemon.scope, ...(sandbox !== undefined && { sandbox }) };
  const pages = pagesOf((query) =>
    daemon.ask("list the snapshots", daemon.client.call("listSnapshots", { query: { ...filter, ...query } })),
  );
  const found = (await Array.fromAsync(pages)).flatMap(({ snapshots }) => snapshots);
  // One that is deleted may have snapshots; one without any may be a wrong name.
  if (sandbox !== undefined && found.length === 0) {
    const asked = daemon.client.call("getSandbox", { params: { sandbox }, query: daemon.scope });
    await daemon.askAbout(sandbox, `list the snapshots of "${sandbox}"`, asked);
  }
  if (json) return context.print(plainJson(found)) as undefined;
  const rows = found.map((each) => [
    each.id,
    each.name ?? "-",
    each.sandbox,
    each.method,
    sizeInWords(each.size),
    briefly(context.now() - each.createdAt),
  ]);
  const titles = ["ID", "NAME", "SANDBOX", "MADE", "SIZE", "AGE"];
  printTable(titles, rows, context);
}

async function remove(daemon: Daemon, wanted: string[], json: boolean, { print }: CommandContext): Promise<undefined> {
  for (const each of wanted) {
    const what = `delete the snapshot "${each}"`;
    const snapshot = await onlyNamed(daemon, each, what);
    await daemon.ask(what, daemon.client.call("deleteSnapshot", { params: { snapshot }, query: daemon.team }));
    print(json ? plainJson({ id: snapshot, deleted: true }) : each);
  }
}

/** the id of the only snapshot with this name; what is no name is taken for an id */
async function onlyNamed(daemon: Daemon, wanted: string, what: string): Promise<string> {
  if (/^snap_\w{20,}$/.test(wanted)) return wanted;
  const query = { ...daemon.scope, name: wanted, limit: 2 };
  const [found, another] = (await daemon.ask(what, daemon.client.call("listSnapshots", { query }))).snapshots;
  if (another) throw new CliError(`Cannot ${what}: several have this name`, "sandkeep snapshot ls lists their ids");
  return found?.id ?? wanted;
}
