/** Sandboxes and the outside: their sources at the start, and what their policy lets them reach. */

import { execFileSync, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { eventually, root, tempDir } from "../../harness/harness.ts";
import { ended, linesOf, openInternet } from "../../internet/internet.ts";
import { startDaemonOn } from "../../internet/internet-daemon.ts";
import { webAddress } from "../../internet/internet-names.ts";
import { has, needs } from "../../runner/needs.ts";
import { type AnySandbox, credentials, fetchTo, raw, sandboxOf, sdks } from "../clients.ts";

const site = "http://web.test:8080";
const undo = new AsyncDisposableStack();
let daemon: TestDaemon;
let commits: string[] = [];

beforeAll(async () => {
  if (!has("root") || !has("the command git")) return;
  const internet = await openInternet(undo);
  const files = await tempDir(undo);
  commits = await publish(files);
  const script = join(root, "test/e2e/vercel/source-servers.ts");
  const servers = spawn(...internet.world.command(process.execPath, script, files, "name:pass word"), {
    stdio: ["pipe", "pipe", "inherit"],
  });
  undo.defer(() => ended(servers));
  await linesOf(servers)();
  daemon = await startDaemonOn(internet, undo, { SANDKEEP_EGRESS_ALLOW: "10.9.9.9/32" });
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command git"));

describe.each(Object.entries(sdks))("SDK %s", (version, { Sandbox }) => {
  // The directory of a repository in the vendor's runtimes; its images have a folder for it.
  const folder = version === "2.9.2" ? "/vercel/sandbox" : "/vercel/repo";
  const git = async (sandbox: AnySandbox, ...args: string[]) =>
    (await sandbox.runCommand({ cmd: "git", args, cwd: folder })).stdout();
  const auth = () => ({ ...credentials(daemon), fetch: fetchTo(daemon), persistent: false });
  const names = async () => (await Array.fromAsync(await Sandbox.list(auth()))).map(({ name }) => name);

  test("a repository is there before the first command", async () => {
    const sandbox = await Sandbox.create({ ...auth(), source: { type: "git", url: `${site}/repo.git` } });
    expect((await sandbox.readFileToBuffer({ path: `${folder}/file.txt` }))?.toString()).toBe("third\n");
    expect(await git(sandbox, "rev-list", "--count", "HEAD")).toBe("3\n");
    await sandbox.delete();
  });

  test("a revision may be requested by branch, tag or commit, with no more history than needed", async () => {
    const wanted = { branch: "second\n", "v1.0": "first\n", [commits[0] ?? ""]: "first\n" };
    for (const [revision, content] of Object.entries(wanted)) {
      const source = { type: "git" as const, url: `${site}/repo.git`, revision, depth: 1 };
      const sandbox = await Sandbox.create({ ...auth(), source });
      expect((await sandbox.readFileToBuffer({ path: `${folder}/file.txt` }))?.toString(), revision).toBe(content);
      expect(await git(sandbox, "rev-list", "--count", "HEAD")).toBe("1\n");
      // Only with a branch is HEAD attached.
      expect(await git(sandbox, "branch", "--show-current")).toBe(revision === "branch" ? "branch\n" : "");
      await sandbox.delete();
    }
  });

  test("a private repository is fetched with a password that is not kept", async () => {
    const url = `${site}/private/repo.git`;
    const source = { type: "git" as const, url, username: "name", password: "pass word" };
    const sandbox = await Sandbox.create({ ...auth(), source });
    expect((await sandbox.readFileToBuffer({ path: `${folder}/file.txt` }))?.toString()).toBe("third\n");
    const search = await sandbox.runCommand("sh", ["-c", "env; grep -rF 'pass word' . ~ /tmp; cat .git/config"]);
    expect(await search.output("both")).not.toContain("pass word");
    await sandbox.delete();
  });

  test("an archive is unpacked before the first command", async () => {
    const sandbox = await Sandbox.create({ ...auth(), source: { type: "tarball", url: `${site}/archive.tgz` } });
    expect((await sandbox.readFileToBuffer({ path: "inside/file.txt" }))?.toString()).toBe("packed\n");
    await sandbox.delete();
  });

  test("a source that cannot be fetched is an error, and nothing is left", async () => {
    const before = await names();
    const sources = [
      { type: "git" as const, url: `${site}/nothing.git` },
      { type: "git" as const, url: `${site}/private/repo.git`, username: "name", password: "wrong" },
      { type: "git" as const, url: `${site}/repo.git`, revision: "no-such-branch" },
      { type: "git" as const, url: `${site.replace("//", "//name:wrong@")}/private/repo.git` },
      { type: "tarball" as const, url: `${site}/missing.tgz` },
      { type: "tarball" as const, url: `${site}/notes.txt` },
    ];
    for (const source of sources) {
      const refused = Sandbox.create({ ...auth(), name: "refused", source });
      await expect(refused, JSON.stringify(source)).rejects.toMatchObject({
        response: { status: 400 },
        json: { error: { message: expect.stringMatching(/^Cannot (clone|fetch) /) } },
      });
      await expect(refused).rejects.not.toMatchObject({
        json: { error: { message: expect.stringContaining("wrong") } },
      });
    }
    const closed = Sandbox.create({ ...auth(), source: { type: "git", url: "http://10.1.2.3/repo.git" } });
    const why = "10.1.2.3 is private (SANDKEEP_EGRESS_ALLOW=10.1.2.3/32 would open it)";
    await expect(closed).rejects.toMatchObject({ json: { error: { message: expect.stringContaining(`. ${why}`) } } });
    const denied = Sandbox.create({
      ...auth(),
      networkPolicy: "deny-all",
      source: { type: "tarball", url: `${site}/archive.tgz` },
    });
    await expect(denied).rejects.toMatchObject({ response: { status: 400 } });
    expect(await names()).toEqual(before);
  });
});

describe("a client that disconnects while its sandbox is created", () => {
  const source = { type: "tarball", url: `${site}/slow/archive.tgz` };
  const sessions = async (): Promise<{ id: string; status: string }[]> =>
    (await raw(daemon, "GET", "/v2/sandboxes/sessions?limit=50")).json.sessions;
  /** begins a create and disconnects before the answer, which waits for the source; returns the session of the create */
  const leave = async (body: object) => {
    const before = (await sessions()).map(({ id }) => id);
    const session = async () => (await sessions()).find(({ id }) => !before.includes(id));
    const gone = new AbortController();
    const { signal } = gone;
    const cut = expect(raw(daemon, "POST", "/v3/sandboxes", { body: { ...body, source }, signal })).rejects.toThrow();
    await eventually("the create has begun", session);
    gone.abort();
    await cut;
    return session;
  };

  test("leaves nothing if it gave no name, because it could not find the sandbox", async () => {
    const session = await leave({ tags: { unheard: "yes" } });
    await eventually("the session was begun and is over", async () => {
      const status = (await session())?.status;
      return status !== undefined && ["stopped", "failed", "aborted"].includes(status);
    });
    expect((await raw(daemon, "GET", "/v2/sandboxes?tags=unheard:yes")).json.sandboxes).toEqual([]);
  });

  test("finds it by its name", async () => {
    const session = await leave({ name: "left", persistent: false });
    await eventually("the session runs", async () => (await session())?.status === "running");
    const { json } = await raw(daemon, "GET", "/v2/sandboxes/left");
    expect(json.session.id).toBe((await session())?.id);
    await raw(daemon, "DELETE", "/v2/sandboxes/left");
  });
});

describe("a network policy", () => {
  const { Sandbox } = sdks["3.5.0"];
  const sandbox = sandboxOf(() =>
    Sandbox.create({ ...credentials(daemon), fetch: fetchTo(daemon), persistent: false }),
  );
  const reaches = async (url: string) => {
    const command = await sandbox().runCommand("curl", ["-sS", "--fail", "--max-time", "5", url]);
    return command.exitCode === 0;
  };

  test("is enforced at once, in both directions", async () => {
    expect(await reaches(`http://${webAddress}/`)).toBe(true);
    expect(await reaches("http://web.test/")).toBe(true);
    await sandbox().update({ networkPolicy: "deny-all" });
    expect(await reaches(`http://${webAddress}/`)).toBe(false);
    expect((await sandbox().runCommand("getent", ["hosts", "web.test"])).exitCode).not.toBe(0);
    await sandbox().update({ networkPolicy: "allow-all" });
    expect(await reaches("http://web.test/")).toBe(true);
  });

  test("of any kind excludes private networks, except those that the operator allows", async () => {
    expect(await reaches("http://10.9.9.9/")).toBe(true);
    for (const address of ["192.168.7.7", "169.254.169.254", "100.64.3.3"]) {
      expect(await reaches(`http://${address}/`), address).toBe(false);
    }
  });
});

test("network traffic is counted", async () => {
  const { Sandbox } = sdks["3.5.0"];
  const sandbox = await Sandbox.create({ ...credentials(daemon), fetch: fetchTo(daemon) });
  await sandbox.runCommand("curl", ["-sS", "-o", "/dev/null", `${site}/large.bin`]);
  const { networkTransfer } = await sandbox.stop();
  expect(networkTransfer?.ingress).toBeGreaterThan(1_000_000);
  expect(networkTransfer?.ingress).toBeLessThan(1_300_000);
  expect(networkTransfer?.egress).toBeGreaterThan(50);
  expect(sandbox.totalIngressBytes).toBe(networkTransfer?.ingress);
  await sandbox.runCommand("curl", ["-sS", "-o", "/dev/null", `${site}/large.bin`]);
  await sandbox.stop();
  expect(sandbox.totalIngressBytes).toBeGreaterThan(2_000_000);
  await sandbox.delete();
});

/** files and repositories for the servers; the commits of the repository, oldest first */
async function publish(directory: string): Promise<string[]> {
  const work = join(directory, "work");
  await mkdir(work);
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=Test", "-c", "user.email=test@example.com", ...args], {
      cwd: work,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  git("init", "--quiet", "--initial-branch=main");
  const made: string[] = [];
  for (const content of ["first", "second", "third"]) {
    await writeFile(join(work, "file.txt"), `${content}\n`);
    git("add", ".");
    git("commit", "--quiet", "-m", content);
    made.push(git("rev-parse", "HEAD"));
  }
  git("tag", "v1.0", made[0] ?? "");
  git("branch", "branch", made[1] ?? "");
  await mkdir(join(directory, "private"));
  for (const name of ["repo.git", "private/repo.git"]) {
    git("clone", "--quiet", "--bare", ".", join(directory, name));
    execFileSync("git", ["-C", join(directory, name), "config", "uploadpack.allowAnySHA1InWant", "true"]);
  }
  const inside = join(directory, "inside");
  await mkdir(inside);
  await writeFile(join(inside, "file.txt"), "packed\n");
  execFileSync("tar", ["-czf", join(directory, "archive.tgz"), "-C", directory, "inside"]);
  await writeFile(join(directory, "notes.txt"), "this is no archive\n");
  await writeFile(join(directory, "large.bin"), Buffer.alloc(1_000_000, "x"));
  return made;
}
