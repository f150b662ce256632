/** Version 1 of the vendor's SDK, its last release in both ways and its first stable one: every method's result. */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import * as sdk1 from "vercel-sandbox-1";
import * as sdk10 from "vercel-sandbox-1-0";
import { beforeAll, describe, expect, test } from "vitest";
import { makeOidcToken } from "../../../../src/api/vercel/account/token.ts";
import { daemonOfFile } from "../../../harness/daemon.ts";
import { tempDir } from "../../../harness/harness.ts";
import { credentials, fetchTo, raw, sdks } from "../../clients.ts";
import { redirectThisProcess } from "../../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

type NewSandbox = sdk1.Sandbox;

/** what both releases have */
interface Way {
  name: string;
  /** the last release has more than the first */
  isLast: boolean;
  create(params?: object): Promise<NewSandbox>;
  get(sandboxId: string): Promise<NewSandbox>;
  list(params?: object): ReturnType<typeof sdk1.Sandbox.list>;
}

const ways: Way[] = [
  way("1.10.2 through the preload", sdk1, () => credentials(daemon())),
  way("1.10.2 through its fetch option", sdk1, () => ({ ...credentials(daemon()), fetch: fetchTo(daemon()) })),
  // The first one's classes are a part of the last one's, except for private members.
  way("1.0.2 through the preload", sdk10 as unknown as typeof sdk1, () => credentials(daemon())),
];

describe.each(ways)("SDK $name", ({ isLast, create, get, list }) => {
  const sandbox = shared(create);

  test("a sandbox has the requested settings, and is found again", async () => {
    const made = await create({ ports: [3000], timeout: 600_000, resources: { vcpus: 2 }, runtime: "node24" });
    expect(made.sandboxId).toMatch(/^sbx_[A-Za-z0-9]{28}$/);
    expect(made).toMatchObject({ status: "running", timeout: 600_000 });
    expect(made.routes).toMatchObject([{ port: 3000 }]);
    expect(made.domain(3000)).toBe(`https://${made.routes[0]?.subdomain}.vercel.run`);
    expect(() => made.domain(4000)).toThrow();
    const found = await get(made.sandboxId);
    expect(found).toMatchObject({ sandboxId: made.sandboxId, status: "running", routes: made.routes });
    const listed = (await list({ limit: 100 })).json.sandboxes.find(({ id }) => id === made.sandboxId);
    expect(listed).toMatchObject({ memory: 4096, vcpus: 2, region: "iad1", runtime: "node24", cwd: "/vercel/sandbox" });
    await made.stop();
    expect((await get(made.sandboxId)).status).toBe("stopped");
  });

  test("a sandbox keeps no files, and its name in the other versions is its id", async () => {
    const made = await create();
    const named = await raw(daemon(), "GET", `/v2/sandboxes/${made.sandboxId}`);
    expect(named.json.sandbox).toMatchObject({
      name: made.sandboxId,
      persistent: false,
      currentSessionId: made.sandboxId,
    });
    await made.stop();
    const stopped = await raw(daemon(), "GET", `/v2/sandboxes/${made.sandboxId}`);
    expect(stopped.json.sandbox).not.toHaveProperty("currentSnapshotId");
    await expect(made.runCommand("true")).rejects.toMatchObject({
      response: { status: 410 },
      json: { error: { code: "sandbox_stopped" } },
    });
  });

  test("a command that is waited for returns its output and exit code", async () => {
    const command = await sandbox().runCommand("sh", ["-c", "echo out; echo err >&2; pwd; exit 3"]);
    expect(command.exitCode).toBe(3);
    expect(await command.stdout()).toBe("out\n/vercel/sandbox\n");
    expect(await command.stderr()).toBe("err\n");
    expect((await command.output("both")).split("\n").sort()).toEqual(["", "/vercel/sandbox", "err", "out"]);
    expect(command).toMatchObject({ cmdId: expect.stringMatching(/^cmd_[0-9a-f]{28}$/), cwd: "/vercel/sandbox" });
    expect((await command.wait()).exitCode).toBe(3);
    await expect(sandbox().runCommand("no-such-program")).rejects.toMatchObject({
      response: { status: 400 },
      json: { error: { code: "executable_not_found" } },
    });
  });

  test("directory, environment, root and streams are as requested", async () => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const script = 'echo "$PWD $(id -un) $B €"; echo warn >&2';
    const options = { cmd: "sh", args: ["-c", script], cwd: "/tmp", env: { B: "2" } };
    const root = await sandbox().runCommand({ ...options, sudo: true, stdout, stderr });
    expect(root.exitCode).toBe(0);
    // The older SDK still writes after the command has ended.
    expect(String((await once(stdout, "data"))[0])).toBe("/tmp root 2 €\n");
    expect(String((await once(stderr, "data"))[0])).toBe("warn\n");
    expect(await (await sandbox().runCommand(options)).stdout()).toBe("/tmp vercel-sandbox 2 €\n");
  });

  test("a detached command is found again, waited for, and can be read from the start any number of times", async () => {
    const args = ["-c", "echo a; sleep 0.1; echo b >&2; exit 5"];
    const command = await sandbox().runCommand({ cmd: "sh", args, detached: true });
    expect(command.exitCode).toBeNull();
    const lines: object[] = [];
    for await (const line of command.logs()) lines.push(line);
    expect(lines).toEqual([
      { stream: "stdout", data: "a\n" },
      { stream: "stderr", data: "b\n" },
    ]);
    expect((await command.wait()).exitCode).toBe(5);
    const found = await sandbox().getCommand(command.cmdId);
    expect(found).toMatchObject({ cmdId: command.cmdId, exitCode: 5, startedAt: command.startedAt });
    expect([await found.stdout(), await found.stderr()]).toEqual(["a\n", "b\n"]);
    await expect(sandbox().getCommand(`cmd_${"0".repeat(28)}`)).rejects.toMatchObject({ response: { status: 404 } });
  });

  test.each([
    ["SIGTERM", undefined, 143],
    ["SIGKILL", "SIGKILL", 137],
    ["10", 10, 138],
  ] as const)("a command killed by %s has the code of the signal", async (_, signal, code) => {
    const command = await sandbox().runCommand({ cmd: "sleep", args: ["600"], detached: true });
    await command.kill(signal);
    expect((await command.wait()).exitCode).toBe(code);
  });

  test("files are written, read and missing; directories are made once", async () => {
    await sandbox().writeFiles([
      { path: "a/b.txt", content: Buffer.from("hello €") },
      { path: "/tmp/x.sh", content: Buffer.from("#!/bin/sh\necho ran\n") },
    ]);
    const found = await sandbox().readFile({ path: "b.txt", cwd: "/vercel/sandbox/a" });
    expect(found && (await text(found))).toBe("hello €");
    expect(await (await sandbox().runCommand("sh", ["/tmp/x.sh"])).stdout()).toBe("ran\n");
    expect(await sandbox().readFile({ path: "missing.txt" })).toBeNull();
    await sandbox().mkDir("made");
    expect((await sandbox().runCommand("test", ["-d", "/vercel/sandbox/made"])).exitCode).toBe(0);
    await expect(sandbox().mkDir("made")).rejects.toMatchObject({
      response: { status: 400 },
      json: { error: { code: "file_error", message: "error creating directory: /vercel/sandbox/made: File exists" } },
    });
  });

  test("the timeout is extended", async () => {
    const { timeout } = sandbox();
    await sandbox().extendTimeout(60_000);
    expect(sandbox().timeout).toBe(timeout + 60_000);
    expect((await get(sandbox().sandboxId)).timeout).toBe(timeout + 60_000);
    await expect(sandbox().extendTimeout(10 ** 12)).rejects.toMatchObject({ response: { status: 400 } });
  });

  test("a missing sandbox is not found", async () => {
    await expect(get(`sbx_${"0".repeat(28)}`)).rejects.toMatchObject({ response: { status: 404 } });
    await expect(get("snapshots")).rejects.toThrow();
    await expect(get("named")).rejects.toMatchObject({ response: { status: 404 } });
  });

  test("a session of the third version is a sandbox of the first, and the other way round", async () => {
    const { Sandbox: Sandbox3 } = sdks["3.5.0"];
    const newer = await Sandbox3.create({ ...credentials(daemon()), ports: [8080], env: { A: "shared" } });
    const older = await get(newer.currentSession().sessionId);
    expect(older.routes).toMatchObject(newer.routes);
    const command = await older.runCommand("sh", ["-c", "echo $A > file; echo $A"]);
    expect(await command.stdout()).toBe("shared\n");
    expect((await newer.getCommand(command.cmdId)).exitCode).toBe(0);
    expect((await newer.readFileToBuffer({ path: "file" }))?.toString()).toBe("shared\n");
    await older.stop();
    // Its files are kept, as requested at its creation.
    expect((await newer.readFileToBuffer({ path: "file" }))?.toString()).toBe("shared\n");
    expect(newer.currentSession().sessionId).not.toBe(older.sandboxId);
    expect((await list({ limit: 2 })).json.sandboxes.map(({ id }) => id)).toEqual([
      newer.currentSession().sessionId,
      older.sandboxId,
    ]);
    await newer.delete();

    const first = await create({ ports: [3000] });
    const seen = await Sandbox3.get({ ...credentials(daemon()), name: first.sandboxId });
    expect(seen).toMatchObject({ persistent: false, status: "running", routes: first.routes });
    expect(await (await seen.runCommand("echo", ["there"])).stdout()).toBe("there\n");
    await seen.stop();
    expect((await get(first.sandboxId)).status).toBe("stopped");
  });

  if (!isLast) return;

  test("a sandbox has an environment and a policy, and shows its settings", async () => {
    const networkPolicy = {
      allow: { "api.example.com": [{ transform: [{ headers: { authorization: "secret" } }] }], "b.example.com": [] },
      subnets: { allow: ["10.0.0.0/8"], deny: ["10.1.0.0/16"] },
    };
    const before = Date.now();
    const made = await create({ env: { A: "1" }, networkPolicy, __interactive: true });
    expect(made.interactivePort).toBe(26661);
    expect(made.routes).toMatchObject([{ port: 26661 }]);
    expect(made.createdAt.getTime()).toBeGreaterThanOrEqual(before);
    const redacted = {
      ...networkPolicy,
      allow: {
        ...networkPolicy.allow,
        "api.example.com": [{ transform: [{ headers: { authorization: "<redacted>" } }] }],
      },
    };
    expect(made.networkPolicy).toEqual(redacted);
    expect(await (await made.runCommand("printenv", ["A"])).stdout()).toBe("1\n");
    expect((await get(made.sandboxId)).networkPolicy).toEqual(redacted);
    for (const policy of ["deny-all", { allow: ["c.example.com"] }, "allow-all"] as const) {
      expect(await made.updateNetworkPolicy(policy as never)).toEqual(policy);
      expect((await get(made.sandboxId)).networkPolicy).toEqual(policy);
    }
    const stopped = await made.stop({ blocking: true });
    expect(stopped.status).toBe("stopped");
    expect(made.activeCpuUsageMs).toBeGreaterThan(0);
    expect(made.networkTransfer).toEqual({ ingress: expect.any(Number), egress: expect.any(Number) });
  });

  test("more of files: to a buffer, to a file here, with a mode, and all of fs", async () => {
    await sandbox().writeFiles([{ path: "run.sh", content: "#!/bin/sh\necho ran\n", mode: 0o755 }]);
    expect(await (await sandbox().runCommand("./run.sh")).stdout()).toBe("ran\n");
    expect((await sandbox().readFileToBuffer({ path: "run.sh" }))?.toString()).toContain("echo ran");
    expect(await sandbox().readFileToBuffer({ path: "none" })).toBeNull();
    const target = join(await tempDir(), "deep/run.sh");
    const written = await sandbox().downloadFile({ path: "run.sh" }, { path: target }, { mkdirRecursive: true });
    expect(await readFile(written ?? "", "utf8")).toContain("echo ran");
    const { fs } = sandbox();
    await fs.mkdir("fs/deep", { recursive: true });
    await fs.writeFile("fs/a", "one");
    await fs.appendFile("fs/a", " two");
    expect(await fs.readFile("fs/a", "utf8")).toBe("one two");
    await fs.rename("fs/a", "fs/b");
    await fs.copyFile("fs/b", "fs/c");
    await fs.symlink("c", "fs/link");
    expect((await fs.readdir("fs")).toSorted()).toEqual(["b", "c", "deep", "link"]);
    expect(await fs.stat("fs/link")).toMatchObject({ size: 7 });
    expect((await fs.lstat("fs/link")).isSymbolicLink()).toBe(true);
    expect([await fs.exists("fs/b"), await fs.exists("fs/a")]).toEqual([true, false]);
    await fs.rm("fs", { recursive: true });
    expect(await fs.exists("fs")).toBe(false);
  });

  test("a snapshot ends its sandbox, others start from it, and it is listed, found and deleted", async () => {
    const origin = await create();
    await origin.writeFiles([{ path: "kept.txt", content: "kept" }]);
    const snapshot = await origin.snapshot({ expiration: 86_400_000 });
    expect(snapshot).toMatchObject({ sourceSandboxId: origin.sandboxId, status: "created" });
    expect(snapshot.sizeBytes).toBeGreaterThanOrEqual(0);
    expect((snapshot.expiresAt?.getTime() ?? 0) - snapshot.createdAt.getTime()).toBe(86_400_000);
    expect((await get(origin.sandboxId)).status).toBe("stopped");
    const copy = await create({ source: { type: "snapshot", snapshotId: snapshot.snapshotId } });
    expect(copy.sourceSnapshotId).toBe(snapshot.snapshotId);
    expect((await copy.readFileToBuffer({ path: "kept.txt" }))?.toString()).toBe("kept");
    await copy.stop();
    const auth = credentials(daemon());
    const page = (await sdk1.Snapshot.list({ ...auth, limit: 100, since: snapshot.createdAt.getTime() - 1 })).json;
    expect(page.snapshots.map(({ id }) => id)).toContain(snapshot.snapshotId);
    expect((await sdk1.Snapshot.list({ ...auth, until: snapshot.createdAt })).json.snapshots).not.toContainEqual(
      expect.objectContaining({ id: snapshot.snapshotId }),
    );
    const found = await sdk1.Snapshot.get({ ...auth, snapshotId: snapshot.snapshotId });
    expect(found).toMatchObject({ status: "created", sourceSandboxId: origin.sandboxId });
    await found.delete();
    expect((await sdk1.Snapshot.get({ ...auth, snapshotId: snapshot.snapshotId })).status).toBe("deleted");
    await expect(create({ source: { type: "snapshot", snapshotId: snapshot.snapshotId } })).rejects.toMatchObject({
      response: { status: 410 },
    });
  });
});

test("a token with the scope inside is all that a program needs", async () => {
  const { token, ...scope } = credentials(daemon());
  process.env.VERCEL_OIDC_TOKEN = makeOidcToken(token, scope);
  try {
    for (const { Sandbox } of [sdk1, sdk10]) {
      const sandbox = await Sandbox.create();
      expect(await (await sandbox.runCommand("echo", ["hello"])).stdout()).toBe("hello\n");
      await sandbox.stop();
    }
  } finally {
    delete process.env.VERCEL_OIDC_TOKEN;
  }
});

/** one sandbox for a whole group of tests */
function shared(create: Way["create"]): () => NewSandbox {
  let sandbox: NewSandbox | undefined;
  beforeAll(async () => {
    sandbox = await create();
    return async () => void (await sandbox?.stop());
  });
  return () => {
    if (!sandbox) throw new Error("The sandbox of these tests was not made");
    return sandbox;
  };
}

function way(name: string, { Sandbox }: typeof sdk1, auth: () => object): Way {
  return {
    name,
    isLast: name.startsWith("1.10"),
    create: (params) => Sandbox.create({ ...params, ...auth() }),
    get: (sandboxId) => Sandbox.get({ sandboxId, ...auth() }),
    list: (params) => Sandbox.list({ ...params, ...auth() }),
  };
}
