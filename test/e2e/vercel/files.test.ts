/** Files and users through the vendor's SDKs: whole files, directories, the file system object, and other users. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { cwdOf, sandboxOf, userOf, waysTo } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

describe.each(waysTo(daemon))("$name", (way) => {
  const sandbox = sandboxOf(() => way.Sandbox.create({ ...way.auth, persistent: false }));
  const cwd = cwdOf(way.version);
  const user = userOf(way.version);

  test("files are written where they belong, with their mode, parents and owner, and read back byte by byte", async () => {
    const bytes = randomBytes(300_000);
    await sandbox().writeFiles([
      { path: "a/b/c.txt", content: "héllo" },
      { path: "/tmp/x.sh", content: "#!/bin/sh\necho ran\n", mode: 0o755 },
      { path: "data.bin", content: bytes },
      { path: "empty", content: "" },
      { path: "ünï 'quoted'.txt", content: "odd" },
    ]);
    const stat = await sandbox().runCommand("stat", [
      "-c",
      "%n %U %a %s",
      "a/b/c.txt",
      "a/b",
      "/tmp/x.sh",
      "data.bin",
      "empty",
    ]);
    expect((await stat.stdout()).trim().split("\n")).toEqual([
      `a/b/c.txt ${user} 644 6`,
      expect.stringMatching(new RegExp(`^a/b ${user} 755 \\d+$`)),
      `/tmp/x.sh ${user} 755 19`,
      `data.bin ${user} 644 300000`,
      `empty ${user} 644 0`,
    ]);
    expect(await (await sandbox().runCommand("/tmp/x.sh")).stdout()).toBe("ran\n");
    const read = async (path: string, cwd?: string) =>
      sandbox().readFileToBuffer({ path, ...(cwd !== undefined && { cwd }) });
    expect((await read("a/b/c.txt"))?.toString()).toBe("héllo");
    expect((await read("b/c.txt", `${cwd}/a`))?.toString()).toBe("héllo");
    expect((await read(`${cwd}/data.bin`))?.equals(bytes)).toBe(true);
    expect(await read("empty")).toHaveLength(0);
    expect((await read("ünï 'quoted'.txt"))?.toString()).toBe("odd");
    const stream = await sandbox().readFile({ path: "data.bin" });
    if (!stream) throw new Error("The file was not found");
    expect((await buffer(stream)).equals(bytes)).toBe(true);
  });

  test("a file can be written where only root may, belongs to the user, and existing files keep their owner", async () => {
    await sandbox().writeFiles([
      { path: "/usr/local/bin/hello", content: "#!/bin/sh\necho hello\n", mode: 0o755 },
      { path: "/opt/tool/etc/conf", content: "x" },
      { path: "/etc/motd", content: "mine now" },
    ]);
    expect(await (await sandbox().runCommand("hello")).stdout()).toBe("hello\n");
    const paths = ["/usr/local/bin/hello", "/opt/tool/etc", "/opt/tool/etc/conf", "/etc/motd", "/opt", "/etc"];
    const stat = await sandbox().runCommand("stat", ["-c", "%U %a", ...paths]);
    expect((await stat.stdout()).trim().split("\n")).toEqual([
      `${user} 755`,
      `${user} 755`,
      `${user} 644`,
      `${user} 644`,
      "root 755",
      "root 755",
    ]);
  });

  test("a missing file is null, and a directory is not a file", async () => {
    expect(await sandbox().readFile({ path: "missing.txt" })).toBeNull();
    expect(await sandbox().readFileToBuffer({ path: "/no/such/file" })).toBeNull();
    expect(await sandbox().downloadFile({ path: "missing.txt" }, { path: join(await tempDir(), "x") })).toBeNull();
    await expect(sandbox().readFile({ path: "/tmp" })).rejects.toMatchObject({
      response: { status: 400 },
      json: { error: { code: "file_error" } },
    });
    const secret = sandbox().readFileToBuffer({ path: "/etc/shadow" });
    await expect(secret).rejects.toMatchObject({ response: { status: 400 }, json: { error: { code: "file_error" } } });
  });

  test("a file is downloaded", async () => {
    const directory = await tempDir();
    await sandbox().writeFiles([{ path: "down.txt", content: "downloaded" }]);
    const to = { path: "deep/down.txt", cwd: directory };
    const path = await sandbox().downloadFile({ path: "down.txt" }, to, { mkdirRecursive: true });
    expect(path).toBe(join(directory, "deep/down.txt"));
    expect(await readFile(path ?? "", "utf8")).toBe("downloaded");
  });

  test("a directory is made once, below one that exists", async () => {
    await sandbox().mkDir("made");
    await sandbox().mkDir(`${cwd}/made/below`);
    expect((await sandbox().runCommand("test", ["-d", "made/below"])).exitCode).toBe(0);
    const words = (message: string) => ({
      response: { status: 400 },
      json: { error: { code: "file_error", message } },
    });
    await expect(sandbox().mkDir("made")).rejects.toMatchObject(
      words(`error creating directory: ${cwd}/made: File exists`),
    );
    await expect(sandbox().mkDir("no/parent")).rejects.toMatchObject(
      words("error creating directory: No such file or directory"),
    );
  });

  test("fs reads, writes and appends", async () => {
    const { fs } = sandbox();
    await fs.writeFile("fs.txt", "one\n");
    await fs.appendFile("fs.txt", "two €\n");
    expect(await fs.readFile("fs.txt", "utf8")).toBe("one\ntwo €\n");
    expect((await fs.readFile("fs.txt")).equals(Buffer.from("one\ntwo €\n"))).toBe(true);
    await expect(fs.readFile("missing", "utf8")).rejects.toMatchObject({ code: "ENOENT" });
    await fs.truncate("fs.txt", 4);
    expect(await fs.readFile("fs.txt", "utf8")).toBe("one\n");
  });

  test("fs stats, lists, moves, copies, links and removes", async () => {
    const { fs } = sandbox();
    await fs.mkdir("tree/sub", { recursive: true });
    await fs.writeFile("tree/file", "12345");
    await fs.symlink("file", "tree/link");
    expect((await fs.readdir("tree")).sort()).toEqual(["file", "link", "sub"]);
    const kinds = (await fs.readdir("tree", { withFileTypes: true })).map((entry) => [
      entry.name,
      entry.isFile() ? "file" : entry.isDirectory() ? "directory" : entry.isSymbolicLink() ? "link" : "other",
    ]);
    expect(kinds.sort()).toEqual([
      ["file", "file"],
      ["link", "link"],
      ["sub", "directory"],
    ]);
    const stat = await fs.stat("tree/link");
    expect([stat.isFile(), stat.size, stat.mode & 0o777, stat.uid]).toEqual([true, 5, 0o644, 1000]);
    expect((await fs.lstat("tree/link")).isSymbolicLink()).toBe(true);
    expect(await fs.readlink("tree/link")).toBe("file");
    expect(await fs.realpath("tree/link")).toBe(`${cwd}/tree/file`);
    await fs.chmod("tree/file", 0o600);
    expect((await fs.stat("tree/file")).mode & 0o777).toBe(0o600);
    await fs.copyFile("tree/file", "tree/copy");
    await fs.rename("tree/copy", "tree/moved");
    expect(await fs.exists("tree/copy")).toBe(false);
    expect(await fs.readFile("tree/moved", "utf8")).toBe("12345");
    await fs.access("tree/moved");
    await expect(fs.access("tree/copy")).rejects.toMatchObject({ code: "ENOENT" });
    await fs.unlink("tree/moved");
    await fs.rmdir("tree/sub");
    await expect(fs.rmdir("tree")).rejects.toThrow();
    await fs.rm("tree", { recursive: true });
    expect(await fs.exists("tree")).toBe(false);
    await fs.rm("tree", { force: true });
    const made = await fs.mkdtemp("/tmp/prefix-");
    expect(made).toMatch(/^\/tmp\/prefix-\w{6}$/);
    expect((await fs.stat(made)).isDirectory()).toBe(true);
  });

  test("other users have homes, groups and files of their own", async () => {
    const alice = await sandbox().createUser("alice");
    const bob = await sandbox().createUser("bob");
    expect(await (await alice.runCommand("sh", ["-c", "id -un; pwd; echo $HOME"])).stdout()).toBe(
      "alice\n/home/alice\n/home/alice\n",
    );
    await alice.writeFiles([{ path: "mine.txt", content: "alice's" }]);
    expect((await alice.readFileToBuffer({ path: "mine.txt" }))?.toString()).toBe("alice's");
    await alice.mkDir("folder");
    const peek = await bob.runCommand("cat", ["/home/alice/mine.txt"]);
    expect(peek.exitCode).not.toBe(0);
    await sandbox().createGroup("team");
    await alice.addToGroup("team");
    await sandbox().addUserToGroup("bob", "team");
    await alice.runCommand("sh", ["-c", "echo ours > /shared/team/file"]);
    expect(await (await bob.runCommand("cat", ["/shared/team/file"])).stdout()).toBe("ours\n");
    await bob.removeFromGroup("team");
    expect((await bob.runCommand("cat", ["/shared/team/file"])).exitCode).not.toBe(0);
    await expect(sandbox().createUser("alice")).rejects.toThrow(/alice/);
    expect(await (await sandbox().asUser("bob").runCommand("id", ["-un"])).stdout()).toBe("bob\n");
    const detached = await alice.runCommand({ cmd: "sh", args: ["-c", "id -un; exit 3"], detached: true });
    expect((await detached.wait()).exitCode).toBe(3);
    expect(await detached.stdout()).toBe("alice\n");
  });
});
