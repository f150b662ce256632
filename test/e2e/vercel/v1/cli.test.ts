/** Version 2 of the vendor's command line, for version 1 of the API: each command, and what is then on record. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../../harness/daemon.ts";
import { type CliResult, cli, linkedHome, raw } from "../../clients.ts";

const daemon = daemonOfFile();
let home = "";

beforeAll(async () => {
  const undo = new AsyncDisposableStack();
  home = await linkedHome(undo);
  return () => undo.disposeAsync();
});

const run = (...args: string[]) => cli("2.5.12", daemon(), home, args);

/** runs a command that must succeed */
async function sandbox(...args: string[]): Promise<CliResult> {
  const result = await run(...args);
  expect(result, `sandbox ${args.join(" ")}: ${result.stderr}`).toMatchObject({ code: 0 });
  return result;
}

/** the setup for the command under test, without a slow command line of its own */
async function make(body: object = {}): Promise<string> {
  const made = await raw(daemon(), "POST", "/v1/sandboxes", { body });
  expect(made, made.text).toMatchObject({ status: 200 });
  return made.json.sandbox.id;
}

const record = async (id: string) => (await raw(daemon(), "GET", `/v1/sandboxes/${id}`)).json;
const stop = (id: string) => raw(daemon(), "POST", `/v1/sandboxes/${id}/stop`);

test("create makes a sandbox as its flags say, list shows it, stop ends it", async () => {
  const flags = "--runtime node24 --timeout 10m --vcpus 2 --publish-port 3000 --env A=1 --network-policy deny-all";
  const created = await sandbox("create", ...flags.split(" "));
  const id = created.stdout.trim();
  expect(id).toMatch(/^sbx_[A-Za-z0-9]{28}$/);
  const { sandbox: made, routes } = await record(id);
  expect(created.stderr).toContain(`3000 -> ${routes[0].url}`);
  expect(made).toMatchObject({ status: "running", timeout: 600_000, vcpus: 2, memory: 4096, runtime: "node24" });
  expect(made.networkPolicy).toEqual({ mode: "deny-all" });
  expect((await sandbox("list")).stdout).toMatch(new RegExp(`^${id} +running .* +4,096 MB +2 +node24`, "m"));
  await sandbox("stop", id);
  expect((await record(id)).sandbox.status).toBe("stopped");
  expect((await sandbox("list")).stdout).not.toContain(id);
  expect((await sandbox("ls", "--all")).stdout).toMatch(new RegExp(`^${id} +stopped`, "m"));
});

test("create and config take policies of domains and subnets", async () => {
  const flags = "--allowed-domain api.example.com --allowed-cidr 10.0.0.0/8 --denied-cidr 10.1.0.0/16";
  const created = await sandbox("create", ...flags.split(" "));
  const id = created.stdout.trim();
  expect((await record(id)).sandbox.networkPolicy).toEqual({
    mode: "custom",
    allowedDomains: ["api.example.com"],
    allowedCIDRs: ["10.0.0.0/8"],
    deniedCIDRs: ["10.1.0.0/16"],
  });
  await sandbox("config", "network-policy", id, "--network-policy", "deny-all");
  expect((await record(id)).sandbox.networkPolicy).toEqual({ mode: "deny-all" });
  await sandbox("config", "network-policy", id, "--allowed-domain", "*.example.com");
  expect((await record(id)).sandbox.networkPolicy).toEqual({ mode: "custom", allowedDomains: ["*.example.com"] });
  const other = await make();
  await sandbox("rm", id, other);
  expect((await record(other)).sandbox.status).toBe("stopped");
});

test("exec runs with its output and exit code, as root, in another directory, with variables", async () => {
  const id = await make({ env: { A: "1" } });
  const failing = await run("exec", id, "--", "sh", "-c", "echo out €; echo err >&2; exit 4");
  expect(failing).toMatchObject({ code: 4, stdout: "out €\n" });
  expect(failing.stderr).toContain("err\n");
  const flags = ["--sudo", "--workdir", "/tmp", "--env", "B=2"];
  const root = await sandbox("exec", ...flags, id, "--", "sh", "-c", "id -un; pwd; echo $A$B");
  expect(root.stdout).toBe("root\n/tmp\n12\n");
  expect((await run("exec", id, "--", "no-such-program")).code).toBe(1);
  const nobody = await run("exec", `sbx_${"0".repeat(28)}`, "--", "true");
  expect(nobody.code).toBe(1);
  expect(`${nobody.stdout}${nobody.stderr}`).toContain("404");
  await stop(id);
  expect((await run("exec", id, "--", "true")).code).not.toBe(0);
});

test("cp copies both ways", async () => {
  const id = await make();
  await writeFile(join(home, "up.txt"), "uploaded €\n");
  await sandbox("cp", "up.txt", `${id}:/tmp/up.txt`);
  await sandbox("copy", "up.txt", `${id}:here.txt`);
  expect((await sandbox("exec", id, "--", "cat", "/tmp/up.txt", "here.txt")).stdout).toBe("uploaded €\nuploaded €\n");
  await sandbox("cp", `${id}:here.txt`, "down.txt");
  expect(await readFile(join(home, "down.txt"), "utf8")).toBe("uploaded €\n");
  const missing = await run("cp", `${id}:missing`, "none.txt");
  expect(`${missing.stdout}${missing.stderr}`).toContain("not found");
  await stop(id);
});

test("run makes a sandbox for a command, and ends it afterwards if requested", async () => {
  const once = await run("run", "--rm", "--env", "A=1", "--", "sh", "-c", "echo once $A; exit 9");
  expect(once).toMatchObject({ code: 9 });
  expect(once.stdout).toContain("once 1\n");
  const [newest] = (await raw(daemon(), "GET", "/v1/sandboxes?limit=1")).json.sandboxes;
  expect(newest.status).toBe("stopped");
  const kept = await sandbox("run", "--", "echo", "kept");
  expect(kept.stdout).toContain("kept\n");
  const [running] = (await raw(daemon(), "GET", "/v1/sandboxes?limit=1")).json.sandboxes;
  expect(running.status).toBe("running");
  await stop(running.id);
});

test("snapshot, snapshots and create from one", async () => {
  const id = await make();
  await sandbox("exec", id, "--", "sh", "-c", "echo captured > file");
  expect((await run("snapshot", id)).code).not.toBe(0);
  expect((await record(id)).sandbox.status).toBe("running");
  const taken = await sandbox("snapshot", "--stop", "--expiration", "3d", id);
  const snapshotId = /snap_[A-Za-z0-9]{28}/.exec(`${taken.stdout}${taken.stderr}`)?.[0] ?? "";
  const { snapshot } = (await raw(daemon(), "GET", `/v1/sandboxes/snapshots/${snapshotId}`)).json;
  expect(snapshot).toMatchObject({ status: "created", sourceSandboxId: id });
  expect(snapshot.expiresAt - snapshot.createdAt).toBe(259_200_000);
  expect((await sandbox("snapshots", "list")).stdout).toContain(snapshotId);
  expect((await sandbox("snapshots", "get", snapshotId)).stdout).toMatch(new RegExp(`${snapshotId} +created`));
  const copy = (await sandbox("create", "--snapshot", snapshotId)).stdout.trim();
  expect((await sandbox("exec", copy, "--", "cat", "file")).stdout).toBe("captured\n");
  await stop(copy);
  await sandbox("snapshots", "delete", snapshotId);
  const deleted = await raw(daemon(), "GET", `/v1/sandboxes/snapshots/${snapshotId}`);
  expect(deleted.json.snapshot.status).toBe("deleted");
});

test("a wrong token gives an error", async () => {
  const result = await run("list", "--token", "sk_wrong_wrong_wrong");
  expect(result.code).toBe(1);
  expect(`${result.stdout}${result.stderr}`).toMatch(/401|log in|login|authori/i);
});
