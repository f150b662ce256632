/** Tests of one version of the vendor's command line: each command of it, and what the daemon then has on record. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type CliResult, type CliVersion, cli, linkedHome, raw } from "../clients.ts";

/** the tests, with a daemon of their own */
export function commandLineSuite(version: CliVersion): void {
  const daemon = daemonOfFile();
  const isNewer = version === "4.5.0";
  const named = (name: string) => `${name}-${version.replaceAll(".", "-")}`;
  const home = homeOfGroup();
  /** runs a command that must succeed */
  const sandbox = async (...args: string[]): Promise<CliResult> => {
    const result = await cli(version, daemon(), home(), args);
    expect(result, `sandbox ${args.join(" ")}: ${result.stderr}`).toMatchObject({ code: 0 });
    return result;
  };
  /** the setup for the command under test, without a slow command line of its own */
  const make = async (name: string, body: object = {}) => {
    const made = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name, ...body } });
    expect(made, made.text).toMatchObject({ status: 200 });
    return made.json;
  };
  /** a shell script in the current session, and the content of a file there; relative paths begin where `exec` begins */
  const script = async (name: string, text: string, sudo = false) => {
    const { session } = await record(name);
    const body = { command: "sh", args: ["-c", text], sudo, wait: true };
    const done = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session.id}/cmd`, { body });
    expect(done.text).toContain('"exitCode":0');
  };
  const content = async (name: string, path: string) => {
    const { session } = await record(name);
    return (await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session.id}/fs/read`, { body: { path } })).text;
  };
  const remove = (name: string) => raw(daemon(), "DELETE", `/v2/sandboxes/${name}`);
  const record = async (name: string) => (await raw(daemon(), "GET", `/v2/sandboxes/${name}`)).json;

  test("create makes a sandbox as its flags say, list shows it, config list too", async () => {
    const name = named("create");
    const flags = "--timeout 10m --vcpus 2 --publish-port 3000 --env A=1 --tag env=dev --network-policy deny-all";
    const created = await sandbox("create", "--name", name, ...flags.split(" "));
    expect(created.stdout).toBe(name);
    const { sandbox: made, session, routes } = await record(name);
    expect(created.stderr).toContain(`3000 -> ${routes[0].url}`);
    expect(made).toMatchObject({ name, timeout: 600_000, vcpus: 2, tags: { env: "dev" }, persistent: true });
    expect(made.networkPolicy).toEqual({ mode: "deny-all" });
    expect(session.status).toBe("running");
    const list = (await sandbox("list")).stdout;
    expect(list).toMatch(new RegExp(`^${name} +running .* +4,096 MB +2 +\\S+ +in \\d+ minutes`, "m"));
    expect((await sandbox("list", "--all", "--name-prefix", "create", "--tag", "env=dev")).stdout).toContain(name);
    expect((await sandbox("list", "--all", "--tag", "env=other")).stdout).not.toContain(name);
    const config = (await sandbox("config", "list", name)).stdout;
    for (const line of [
      /vCPUs +2/,
      /Timeout +10 minutes/,
      /Persistent +true/,
      /Network policy +deny-all/,
      /Tags +env=dev/,
    ]) {
      expect(config).toMatch(line);
    }
    await sandbox("remove", name);
    expect((await raw(daemon(), "GET", `/v2/sandboxes/${name}`)).status).toBe(404);
  });

  test("create takes a policy of domains and subnets, retention and no persistence", async () => {
    const name = named("policy");
    const flags =
      "--allowed-domain api.example.com --allowed-cidr 10.0.0.0/8 --denied-cidr 10.1.0.0/16 --non-persistent";
    const retention =
      "--snapshot-expiration 7d --keep-last-snapshots 2 --keep-last-snapshots-for 30d --delete-evicted-snapshots false";
    await sandbox("create", "--silent", "--name", name, ...flags.split(" "), ...retention.split(" "));
    expect((await record(name)).sandbox).toMatchObject({
      persistent: false,
      networkPolicy: {
        mode: "custom",
        allowedDomains: ["api.example.com"],
        allowedCIDRs: ["10.0.0.0/8"],
        deniedCIDRs: ["10.1.0.0/16"],
      },
      snapshotExpiration: 604_800_000,
      keepLastSnapshots: { count: 2, expiration: 2_592_000_000, deleteEvicted: false },
    });
    await sandbox("rm", name);
    expect((await raw(daemon(), "GET", `/v2/sandboxes/${name}`)).status).toBe(404);
  });

  test("exec runs with its output and exit code, as root, elsewhere, with variables, and within its time limit", async () => {
    const name = named("exec");
    await make(name, { env: { A: "1" } });
    const run = (...args: string[]) => cli(version, daemon(), home(), ["exec", ...args]);
    const failing = await run(name, "--", "sh", "-c", "echo out; echo err >&2; exit 4");
    expect(failing).toMatchObject({ code: 4, stdout: "out\n" });
    expect(failing.stderr).toContain("err\n");
    const root = await run(
      "--sudo",
      "--workdir",
      "/tmp",
      "--env",
      "B=2",
      name,
      "--",
      "sh",
      "-c",
      "id -un; pwd; echo $A$B",
    );
    expect(root).toMatchObject({ code: 0, stdout: "root\n/tmp\n12\n" });
    expect(await run("--timeout", "1s", name, "--", "sleep", "600")).toMatchObject({ code: 137 });
    const missing = await run(name, "--", "no-such-program");
    expect(missing.code).toBe(1);
    if (isNewer) expect(missing.stderr).toContain("executable file not found in $PATH: no-such-program");
    const nobody = await run(named("nobody"), "--", "true");
    expect(nobody.code).toBe(1);
    expect(nobody.stderr).toContain("404");
    await remove(name);
  });

  test("cp copies both ways", async () => {
    const name = named("cp");
    await make(name);
    await writeFile(join(home(), "up.txt"), "uploaded €\n");
    await sandbox("cp", "up.txt", `${name}:/tmp/up.txt`);
    await sandbox("copy", "up.txt", `${name}:here.txt`);
    for (const path of ["/tmp/up.txt", "here.txt"]) expect(await content(name, path)).toBe("uploaded €\n");
    await sandbox("cp", `${name}:here.txt`, "down.txt");
    expect(await readFile(join(home(), "down.txt"), "utf8")).toBe("uploaded €\n");
    const missing = await cli(version, daemon(), home(), ["cp", `${name}:missing`, "none.txt"]);
    expect(`${missing.stdout}${missing.stderr}`).toContain("not found");
    await remove(name);
  });

  test("each config command changes what it names", async () => {
    const name = named("config");
    await make(name, { tags: { a: "b" } });
    const changed = async (...args: string[]) => {
      const [what = "", ...rest] = args;
      await sandbox("config", what, name, ...rest);
      return record(name);
    };
    expect((await changed("vcpus", "4")).sandbox).toMatchObject({ vcpus: 4, memory: 8192 });
    expect(await changed("timeout", "20m")).toMatchObject({
      sandbox: { timeout: 1_200_000 },
      session: { timeout: 1_200_000 },
    });
    expect((await changed("persistent", "false")).sandbox.persistent).toBe(false);
    const policy = await changed("network-policy", "--network-policy", "deny-all");
    expect([policy.sandbox.networkPolicy, policy.session.networkPolicy]).toEqual([
      { mode: "deny-all" },
      { mode: "deny-all" },
    ]);
    expect((await changed("snapshot-expiration", "2d")).sandbox.snapshotExpiration).toBe(172_800_000);
    expect((await changed("keep-last-snapshots", "3")).sandbox.keepLastSnapshots).toEqual({
      count: 3,
      deleteEvicted: true,
    });
    expect((await changed("keep-last-snapshots-for", "7d")).sandbox.keepLastSnapshots.expiration).toBe(604_800_000);
    expect((await changed("delete-evicted-snapshots", "false")).sandbox.keepLastSnapshots.deleteEvicted).toBe(false);
    expect((await changed("tags", "--tag", "c=d")).sandbox.tags).toEqual({ c: "d" });
    expect((await changed("tags")).sandbox.tags).toBeUndefined();
    const ports = await changed("ports", "-p", "3000", "-p", "8080");
    expect(ports.routes.map(({ port }: { port: number }) => port)).toEqual([3000, 8080]);
    if (isNewer) {
      expect((await changed("region", "fra1")).sandbox.region).toBe("fra1");
      expect((await changed("failover-regions", "cdg1")).sandbox.failoverRegions).toEqual(["cdg1"]);
      expect((await changed("failover-regions", "none")).sandbox.failoverRegions).toEqual([]);
      expect((await changed("network-id", "net_1")).sandbox.networkId).toBe("net_1");
      expect((await changed("network-id", "none")).sandbox).not.toHaveProperty("networkId");
    }
    await remove(name);
  });

  test("stop keeps the files, exec brings the sandbox back, sessions list shows both", async () => {
    const name = named("stop");
    await make(name);
    await script(name, "echo kept > file");
    const { session: first } = await record(name);
    const stopped = await sandbox("stop", name);
    expect(stopped.stderr).toContain(first.id);
    expect(stopped.stderr).toMatch(/active cpu: .* duration: .* ingress: .* egress: /);
    expect((await record(name)).session.status).toBe("stopped");
    expect((await sandbox("stop", name)).code).toBe(0);
    expect((await sandbox("exec", name, "--", "cat", "file")).stdout).toBe("kept\n");
    const { session: second } = await record(name);
    const running = (await sandbox("sessions", "list", name)).stdout;
    expect(running).toContain(second.id);
    expect(running).not.toContain(first.id);
    expect((await sandbox("sessions", "list", "--all", name)).stdout).toMatch(new RegExp(`${first.id} +stopped`));
    await remove(name);
  });

  test("snapshot, snapshots and create from one", async () => {
    const name = named("snapshot");
    await make(name);
    await script(name, "echo captured > file");
    const refused = await cli(version, daemon(), home(), ["snapshot", name]);
    expect(refused.code).not.toBe(0);
    const taken = await sandbox("snapshot", "--stop", "--expiration", "3d", name);
    const id = /snap_[A-Za-z0-9]{28}/.exec(taken.stderr)?.[0] ?? "";
    const { snapshot } = (await raw(daemon(), "GET", `/v2/sandboxes/snapshots/${id}`)).json;
    expect(snapshot).toMatchObject({ status: "created", creationMethod: "manual" });
    expect(snapshot.expiresAt - snapshot.createdAt).toBe(259_200_000);
    expect((await sandbox("snapshots", "list")).stdout).toContain(id);
    expect((await sandbox("snapshots", "list", "--name", name)).stdout).toContain(id);
    expect((await sandbox("snapshots", "get", id)).stdout).toMatch(new RegExp(`${id} +created`));
    expect((await sandbox("snapshots", "tree", name)).stdout).toContain(id);
    const copy = named("from-snapshot");
    await sandbox("create", "--name", copy, "--snapshot", id);
    expect(await content(copy, "file")).toBe("captured\n");
    await sandbox("config", "current-snapshot", copy, id);
    await sandbox("snapshots", "delete", id);
    expect((await raw(daemon(), "GET", `/v2/sandboxes/snapshots/${id}`)).json.snapshot.status).toBe("deleted");
    expect((await cli(version, daemon(), home(), ["snapshots", "delete", id])).code).not.toBe(0);
    await Promise.all([name, copy].map(remove));
  });

  test("fork copies a sandbox with changed settings", async () => {
    const [name, fork] = [named("origin"), named("fork")];
    const { session } = await make(name, { resources: { vcpus: 4 }, tags: { a: "b" }, ports: [3000] });
    await script(name, "echo forked > file");
    await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session.id}/stop`);
    const forked = await sandbox("fork", name, "--name", fork, "--tag", "c=d");
    expect(forked.stdout).toBe(fork);
    expect((await record(fork)).sandbox).toMatchObject({ vcpus: 4, tags: { c: "d" } });
    expect(await content(fork, "file")).toBe("forked\n");
    await sandbox("rm", name, fork);
    expect((await raw(daemon(), "GET", `/v2/sandboxes/${fork}`)).status).toBe(404);
  });

  test("run makes a sandbox for a command, and stops or removes it afterwards if asked to", async () => {
    const name = named("run");
    const removed = await cli(version, daemon(), home(), [
      "run",
      "--name",
      name,
      "--rm",
      "--",
      "sh",
      "-c",
      "echo once; exit 9",
    ]);
    expect(removed).toMatchObject({ code: 9 });
    expect(removed.stdout).toContain("once\n");
    expect((await raw(daemon(), "GET", `/v2/sandboxes/${name}`)).status).toBe(404);
    await sandbox("run", "--name", name, "--stop", "--", "sh", "-c", "echo kept > file");
    expect((await record(name)).sandbox.status).toBe("stopped");
    const again = await sandbox("run", "--name", name, "--", "cat", "file");
    expect(again.stdout).toContain("kept\n");
    expect((await record(name)).sandbox.status).toBe("running");
    await remove(name);
  });

  test("a wrong token gives an error", async () => {
    const result = await cli(version, daemon(), home(), ["list", "--token", "sk_wrong_wrong_wrong"]);
    expect(result.code).toBe(1);
    expect(`${result.stdout}${result.stderr}`).toMatch(/401|log in|login|authori/i);
  });

  if (isNewer) {
    test("drives are made, mounted, listed and deleted; regions and networks are kept", async () => {
      const name = named("drives");
      await sandbox("drives", "get-or-create", "d9");
      expect((await sandbox("drives", "list")).stdout).toMatch(/^d9 +iad1/m);
      const flags = "--mount d9:/data --region iad1 --failover-regions sfo1 --network-id net_1";
      await sandbox("create", "--name", name, ...flags.split(" "));
      expect((await record(name)).sandbox).toMatchObject({
        mounts: { "/data": { drive: "d9", mode: "read-write" } },
        region: "iad1",
        failoverRegions: ["sfo1"],
        networkId: "net_1",
      });
      await script(name, "echo durable > /data/file", true);
      expect((await sandbox("drives", "list")).stdout).toContain(name);
      expect((await cli(version, daemon(), home(), ["drives", "delete", "d9"])).code).not.toBe(0);
      await sandbox("config", "mounts", name);
      expect((await record(name)).sandbox.mounts).toBeUndefined();
      await sandbox("stop", name);
      await sandbox("config", "mounts", name, "--mount", "d9:/other");
      expect((await sandbox("exec", name, "--", "cat", "/other/file")).stdout).toBe("durable\n");
      await remove(name);
      await sandbox("drives", "delete", "d9");
      expect((await sandbox("drives", "list")).stdout).not.toContain("d9");
    });
  }
}

function homeOfGroup(): () => string {
  let home = "";
  beforeAll(async () => {
    const undo = new AsyncDisposableStack();
    home = await linkedHome(undo);
    return () => undo.disposeAsync();
  });
  return () => home;
}
