/** File operations against the guest's real file code, which runs with sanitizers in a process per connection. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, onTestFinished, test } from "vitest";
import { all, refusal, startFileGuest, useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import { eventually, tempDir } from "../../../../test/harness/harness.ts";
import { FileSession } from "./file-session.ts";
import { filesOver } from "./files.ts";

const run = promisify(execFile);
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const guest = useFileGuest();
const files = filesOver(guest.connect);

async function text(path: string, options?: { offset?: number; length?: number }): Promise<string> {
  return Buffer.concat(await files.read(path, options).toArray()).toString();
}

/** pieces of a file that is never completely in memory */
async function* patterned(pieces: number, length: number): AsyncGenerator<Buffer> {
  for (let i = 0; i < pieces; i++) yield Buffer.alloc(length, i % 251);
}

/** a directory with 1 MiB of room, for this test */
async function smallDisk(): Promise<string> {
  const directory = await tempDir();
  await run("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", directory]);
  // The guest answers before it has closed the file, so the disk may still be busy when the test ends.
  const unmount = () => run("umount", ["--lazy", directory]);
  onTestFinished(async () => void (await eventually("the disk is unmounted", unmount)));
  return directory;
}

/** bytes in buffers that are still referenced; measures only at intervals, since that takes a while */
function buffersInUse(turn = 0): number {
  if (turn % 32 !== 0) return 0;
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

describe("read and write", () => {
  test("a written file can be read, whole or in part", async () => {
    const path = join(await tempDir(), "a");
    await files.write(path, Buffer.from("hello world"));
    expect(await text(path)).toBe("hello world");
    expect(await text(path, { offset: 6 })).toBe("world");
    expect(await text(path, { offset: 2, length: 3 })).toBe("llo");
    expect(await text(path, { length: 0 })).toBe("");
    expect(await text(path, { offset: 100 })).toBe("");
  });

  test("a write replaces or extends the file", async () => {
    const path = join(await tempDir(), "a");
    await files.write(path, Buffer.from("a longer text"));
    await files.write(path, Buffer.from("short"));
    await files.write(path, Buffer.from(" and more"), { append: true });
    expect(await text(path)).toBe("short and more");
    await files.write(path, Buffer.alloc(0));
    expect(await text(path)).toBe("");
  });

  test("missing directories are made only when asked", async () => {
    const directory = await tempDir();
    expect(await refusal(files.write(join(directory, "x/y/z"), Buffer.from("1")))).toMatch(/^not-found: Cannot write/);
    await files.write(join(directory, "x/y/z"), Buffer.from("1"), { parents: true, mode: 0o600 });
    expect(await text(join(directory, "x/y/z"))).toBe("1");
    expect((await files.stat(join(directory, "x/y/z"))).mode).toBe(0o600);
  });

  test("64 MB stream through in constant memory, both ways", async () => {
    const path = join(await tempDir(), "big");
    const before = buffersInUse();
    let most = 0;
    let turn = 0;
    async function* observed() {
      for await (const piece of patterned(512, 128 << 10)) {
        yield piece;
        most = Math.max(most, buffersInUse(turn++));
      }
    }
    await files.write(path, observed());
    expect((await files.stat(path)).size).toBe(64 << 20);
    let length = 0;
    for await (const chunk of files.read(path)) {
      length += chunk.length;
      most = Math.max(most, buffersInUse(turn++));
    }
    expect(length).toBe(64 << 20);
    expect(most - before).toBeLessThan(32 << 20);
  });

  test("a slow reader holds the guest back", async () => {
    const path = join(await tempDir(), "big");
    await files.write(path, patterned(256, 128 << 10));
    const socket = await guest.raw();
    const session = new FileSession(socket);
    onTestFinished(() => session.close());
    const chunks = session.read(path);
    await chunks.next();
    let received = -1;
    const rests = () => {
      const before = received;
      received = socket.bytesRead;
      return received === before;
    };
    await eventually("nothing more comes", rests, { everyMs: 100 });
    expect(received).toBeLessThan(4 << 20);
    expect(Buffer.concat(await all(chunks)).length).toBeGreaterThan(31 << 20);
  });

  test("files of the kernel, whose size is 0, are read to their end", async () => {
    expect(await text("/proc/meminfo")).toContain("MemTotal");
  });

  test("a reader that goes away ends the transfer and nothing else", async () => {
    const path = join(await tempDir(), "big");
    await files.write(path, patterned(64, 128 << 10));
    const stream = files.read(path);
    await once(stream, "readable");
    stream.destroy();
    expect(await text(path, { length: 2 })).toHaveLength(2);
  });

  test("data that ends in an error makes the write fail with that error", async () => {
    const path = join(await tempDir(), "a");
    async function* bad() {
      yield Buffer.from("abc");
      throw new Error("the upload broke off");
    }
    await expect(files.write(path, bad())).rejects.toThrow("the upload broke off");
  });

  test("a full disk gives its own error at once, and the rest of the data is not read", async () => {
    let asked = 0;
    async function* endless() {
      for (;;) {
        asked++;
        yield Buffer.alloc(1 << 20);
      }
    }
    const directory = await smallDisk();
    expect(await refusal(files.write(join(directory, "a"), endless()))).toBe(
      `limit: Cannot write "${directory}/a": no space is left on the disk`,
    );
    expect(asked).toBeLessThan(50);
  });
});

describe("something other than a regular file", () => {
  test.each(["fifo", "device", "directory", "socket"])(
    "a %s is neither read nor written, and nothing hangs",
    async (kind) => {
      const path = join(await tempDir(), "x");
      if (kind === "fifo") await run("mkfifo", [path]);
      if (kind === "device") await run("mknod", [path, "c", "1", "3"]);
      if (kind === "directory") await fs.mkdir(path);
      if (kind === "socket") {
        const server = createServer().listen(path);
        await once(server, "listening");
        onTestFinished(() => void server.close());
      }
      const why = kind === "directory" ? "it is a directory" : "it is not a regular file";
      expect(await refusal(text(path))).toBe(`invalid: Cannot read "${path}": ${why}`);
      expect(await refusal(files.write(path, Buffer.from("x")))).toBe(`invalid: Cannot write "${path}": ${why}`);
    },
  );

  test("a symlink to a fifo is not read either", async () => {
    const directory = await tempDir();
    await run("mkfifo", [join(directory, "fifo")]);
    await fs.symlink("fifo", join(directory, "link"));
    expect(await refusal(text(join(directory, "link")))).toContain("it is not a regular file");
  });
});

describe("facts", () => {
  test("stat returns type, size, mode, owner, time and target", async () => {
    const directory = await tempDir();
    await fs.writeFile(join(directory, "f"), "12345", { mode: 0o640 });
    await fs.chown(join(directory, "f"), 12, 34);
    await fs.utimes(join(directory, "f"), 1000, 1234.5);
    await fs.symlink("f", join(directory, "l"));
    const times = { accessedAt: 1_000_000, modifiedAt: 1_234_500 };
    const facts = { size: 5, mode: 0o640, uid: 12, gid: 34, ...times, type: "file" };
    const { changedAt = 0, ...stat } = await files.stat(join(directory, "f"));
    expect(stat).toEqual({ ...facts, name: "f", path: join(directory, "f") });
    expect(Math.abs(changedAt - Date.now())).toBeLessThan(60_000);
    expect(await files.stat(join(directory, "l"))).toMatchObject({ ...facts, name: "l" });
    expect(await files.stat(join(directory, "l"), { follow: false })).toMatchObject({ type: "symlink", target: "f" });
    expect(await files.stat(directory)).toMatchObject({ type: "directory" });
    expect(await files.stat("/dev/null")).toMatchObject({ type: "device" });
  });

  test("times beyond the range of dates do no harm", async () => {
    const directory = await tempDir();
    await run("touch", ["-d", "@-5", join(directory, "old")]);
    await run("touch", ["-d", "@99999999999", join(directory, "new")]);
    expect((await files.stat(join(directory, "old"))).modifiedAt).toBe(0);
    expect((await files.stat(join(directory, "new"))).modifiedAt).toBeGreaterThan(4_000_000_000_000);
  });

  test("20,000 files are listed, each once", async () => {
    const directory = await tempDir();
    await run("sh", ["-c", 'cd "$1" && seq 20000 | xargs touch', "sh", directory]);
    const names = new Set((await files.list(directory)).map((file) => file.name));
    expect(names.size).toBe(20_000);
    expect(names.has("12345")).toBe(true);
  });

  test("names of any bytes are listed without harm", async () => {
    const directory = await tempDir();
    await fs.writeFile(Buffer.concat([Buffer.from(`${directory}/`), Buffer.from([0xff, 0x0a, 0x80])]), "");
    await fs.writeFile(join(directory, "\u00e4\u4e2d \"'\\"), "");
    const list = await files.list(directory);
    expect(list.map((file) => file.name).sort()).toEqual(["\u00e4\u4e2d \"'\\", "\ufffd\n\ufffd"]);
  });
});

describe("changing the tree", () => {
  test("directories are made, one or all on the way", async () => {
    const directory = await tempDir();
    await files.mkdir(join(directory, "a"), { mode: 0o700 });
    expect((await files.stat(join(directory, "a"))).mode).toBe(0o700);
    expect(await refusal(files.mkdir(join(directory, "a")))).toMatch(/^exists: .*it exists already$/);
    expect(await refusal(files.mkdir(join(directory, "b/c")))).toMatch(/^not-found: /);
    await files.mkdir(join(directory, "b/c//d/"), { recursive: true });
    await files.mkdir(join(directory, "b/c/d"), { recursive: true });
    await files.write(join(directory, "f"), Buffer.from(""));
    expect(await refusal(files.mkdir(join(directory, "f"), { recursive: true }))).toMatch(/^exists: /);
    expect(await refusal(files.mkdir(join(directory, "f/g"), { recursive: true }))).toMatch(/^invalid: /);
  });

  test("move, chmod and chown work", async () => {
    const directory = await tempDir();
    await files.write(join(directory, "a"), Buffer.from("1"));
    await files.move(join(directory, "a"), join(directory, "b"));
    await fs.symlink("b", join(directory, "l"));
    await files.chmod(join(directory, "b"), 0o4711);
    await files.chown(join(directory, "l"), 5, 6);
    expect(await text(join(directory, "l"))).toBe("1");
    const facts = await fs.stat(join(directory, "b"));
    expect([facts.uid, facts.gid]).toEqual([5, 6]);
    expect((await fs.lstat(join(directory, "l"))).uid).toBe(0);
    await files.chmod(join(directory, "b"), 0o4711);
    expect((await files.stat(join(directory, "b"))).mode).toBe(0o4711);
    expect(await refusal(files.move(join(directory, "no"), join(directory, "b")))).toMatch(/^not-found: Cannot move/);
  });

  test("remove deletes files, empty directories and, when asked, whole trees, but follows no symlink", async () => {
    const directory = await tempDir();
    await fs.mkdir(join(directory, "kept"));
    await fs.writeFile(join(directory, "kept/file"), "");
    await fs.mkdir(join(directory, "tree/a/b"), { recursive: true });
    for (let i = 0; i < 300; i++) await fs.writeFile(join(directory, `tree/a/b/${i}`), "");
    await fs.symlink(join(directory, "kept"), join(directory, "tree/a/link"));
    await fs.symlink(join(directory, "kept"), join(directory, "link"));
    expect(await refusal(files.remove(join(directory, "tree")))).toMatch(/^conflict: .*not empty$/);
    await files.remove(join(directory, "tree"), { recursive: true });
    await files.remove(`${directory}/link/`, { recursive: true });
    expect(await fs.readdir(directory)).toEqual(["kept"]);
    expect(await fs.readdir(join(directory, "kept"))).toEqual(["file"]);
    expect(await refusal(files.remove(join(directory, "no")))).toMatch(/^not-found: /);
    await files.remove(join(directory, "no"), { force: true });
    await files.remove(join(directory, "kept/file"));
    await files.remove(join(directory, "kept"));
    for (const path of ["/", "/.", "/..", `${directory}/..`]) {
      expect(await refusal(files.remove(path, { recursive: true }))).toMatch(/^invalid: /);
    }
  });

  test("a tree 10,000 deep is measured and removed with few open files", async () => {
    const directory = await tempDir();
    await run(guest.program, ["deep", directory, "10000"]);
    const privileged = await startFileGuest(guest.program, { privileged: true });
    onTestFinished(() => privileged.stop());
    const session = await privileged.connect();
    expect((await session.usage(directory)).inodes).toBe(10_001);
    expect(await refusal(all(session.walk(directory)))).toMatch(/^invalid: .*too long$/);
    session.close();
    await files.remove(join(directory, "d"), { recursive: true });
    expect(await fs.readdir(directory)).toEqual([]);
  });

  test("a deep and wide tree is walked completely", async () => {
    const directory = await tempDir();
    let expected = 0;
    for (let path = directory, depth = 0; depth < 100; depth++, path = join(path, "d")) {
      await fs.mkdir(join(path, "d"));
      for (const name of ["a", "b", "z"]) await fs.writeFile(join(path, name), "");
      expected += 4;
    }
    const session = await guest.connect();
    onTestFinished(() => session.close());
    const paths = new Set<string>();
    for await (const { entry } of session.walk(directory)) paths.add(entry.path);
    expect(paths.size).toBe(expected + 1);
    await files.remove(join(directory, "d"), { recursive: true });
  });
});

describe("users and roots", () => {
  test("a plain user has that user's permissions, and errors for the rest", async () => {
    const plain = await startFileGuest(guest.program, { user: { uid: 65_534, gid: 65_534 } });
    onTestFinished(() => plain.stop());
    const theirs = filesOver(plain.connect);
    const directory = await tempDir();
    await fs.chmod(directory, 0o755);
    await fs.writeFile(join(directory, "secret"), "", { mode: 0o600 });
    expect(await refusal(theirs.read(join(directory, "secret")).toArray())).toMatch(/^forbidden: .*permission denied$/);
    expect(await refusal(theirs.write(join(directory, "new"), Buffer.from("")))).toMatch(/^forbidden: /);
    expect(await refusal(theirs.chown(directory, 0, 0))).toMatch(/^forbidden: /);
    expect(await refusal(theirs.archive(directory).toArray())).toContain(`Cannot walk "${directory}/secret"`);
    const session = await plain.connect();
    onTestFinished(() => session.close());
    expect(await refusal(session.whiteout(join(directory, "w")))).toMatch(/^forbidden: .*only the launcher/);
    for (const name of ["user.x", "trusted.overlay.opaque", "security.selinux"]) {
      expect(await refusal(session.setAttribute(directory, name, Buffer.from("1")))).toMatch(/^forbidden: /);
    }
    expect(await refusal(session.usage(directory))).toMatch(/^forbidden: /);
  });

  test("no path and no symlink leads out of a layer", async () => {
    const directory = await tempDir();
    const outside = join(await tempDir(), "outside");
    await fs.writeFile(outside, "secret");
    await fs.symlink(outside, join(directory, "absolute"));
    await fs.symlink(`../../../../../..${outside}`, join(directory, "relative"));
    const layer = await startFileGuest(guest.program, { root: directory, privileged: true });
    onTestFinished(() => layer.stop());
    const inside = filesOver(layer.connect);
    for (const path of ["/absolute", "/relative", `/..${outside}`, outside]) {
      expect(await refusal(inside.read(path).toArray())).toMatch(/^not-found: /);
    }
    const session = await layer.connect();
    onTestFinished(() => session.close());
    await session.whiteout("/gone");
    expect(await session.stat("/gone")).toMatchObject({ type: "character-device", major: 0, minor: 0 });
    await session.setAttribute("/", "trusted.overlay.opaque", Buffer.from("y"));
    expect(await refusal(session.setAttribute("/", "security.selinux", Buffer.from("y")))).toMatch(/^forbidden: /);
    await session.write("/big", Buffer.alloc(1 << 20, 1));
    await session.link("/big", "/big2");
    const usage = await session.usage("/");
    expect(usage.inodes).toBe(5);
    expect(usage.bytes).toBeGreaterThanOrEqual(1 << 20);
    const [top] = await all(session.walk("/", { attributes: true }));
    expect(top?.entry.attributes).toEqual([{ name: "trusted.overlay.opaque", value: Buffer.from("y") }]);
  });
});

describe("an incomplete write", () => {
  const broken = async function* () {
    yield Buffer.from("half of it");
    throw new Error("the upload broke off");
  };

  test.each([{}, { replace: true }])("leaves the old file, and no temporary name: %j", async (options) => {
    const directory = await tempDir();
    const path = join(directory, "a");
    await expect(files.write(path, broken(), options)).rejects.toThrow("the upload broke off");
    expect(await fs.readdir(directory)).toEqual([]);
    await fs.writeFile(path, "before");
    await expect(files.write(path, broken(), options)).rejects.toThrow("the upload broke off");
    expect(await fs.readFile(path, "utf8")).toBe("before");
    expect(await fs.readdir(directory)).toEqual(["a"]);
  });

  test("leaves the old file when its connection breaks", async () => {
    const directory = await tempDir();
    const path = join(directory, "a");
    await fs.writeFile(path, "before");
    const session = await guest.connect();
    const { promise: taken, resolve } = Promise.withResolvers<void>();
    const endless = async function* () {
      for (let n = 0; ; n++) {
        if (n === 20) resolve();
        yield Buffer.alloc(1 << 16);
      }
    };
    const writing = session.write(path, endless()).catch(() => "cut");
    await taken;
    session.close();
    expect(await writing).toBe("cut");
    expect(await fs.readFile(path, "utf8")).toBe("before");
    expect(await fs.readdir(directory)).toEqual(["a"]);
  });
});

describe("a write over a file", () => {
  test("keeps its mode and its owner", async () => {
    const path = join(await tempDir(), "a");
    await fs.writeFile(path, "before", { mode: 0o640 });
    await fs.chown(path, 1234, 2345);
    const { ino } = await fs.stat(path);
    await files.write(path, Buffer.from("after"));
    const facts = await fs.stat(path);
    expect([facts.mode & 0o7777, facts.uid, facts.gid]).toEqual([0o640, 1234, 2345]);
    expect(facts.ino).not.toBe(ino);
    expect(await fs.readFile(path, "utf8")).toBe("after");
  });

  test("goes through a symlink, which stays a symlink, even if its target does not exist yet", async () => {
    const directory = await tempDir();
    await fs.mkdir(join(directory, "d"));
    await fs.symlink("d/a", join(directory, "link"));
    for (const content of ["first", "second"]) {
      await files.write(join(directory, "link"), Buffer.from(content));
      expect(await fs.readFile(join(directory, "d/a"), "utf8")).toBe(content);
      expect(await fs.readlink(join(directory, "link"))).toBe("d/a");
    }
    expect(await fs.readdir(join(directory, "d"))).toEqual(["a"]);
  });

  test("is visible under all names of the file, and keeps its attributes", async () => {
    const path = join(await tempDir(), "a");
    await fs.writeFile(path, "before");
    await fs.link(path, `${path}-too`);
    await files.write(path, Buffer.from("after"));
    expect(await fs.readFile(`${path}-too`, "utf8")).toBe("after");
    await fs.rm(`${path}-too`);
    await run("python3", ["-c", `import os; os.setxattr("${path}", "user.note", b"kept")`]);
    await files.write(path, Buffer.from("again"));
    const { stdout } = await run("python3", ["-c", `import os; print(os.getxattr("${path}", "user.note").decode())`]);
    expect(stdout).toBe("kept\n");
  });

  test("can use the old file's room if no other is free", async () => {
    const directory = await smallDisk();
    const path = join(directory, "a");
    await fs.writeFile(path, Buffer.alloc(700 << 10, "a"));
    const next = Buffer.alloc(600 << 10, "b");
    await files.write(path, next);
    expect(next.equals(await fs.readFile(path))).toBe(true);
  });
});
