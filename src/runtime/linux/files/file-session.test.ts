/** Hostile input and hostile neighbours of file requests have no effect but a clear error. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { duplexPair } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { all, refusal, startFileGuest, useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import { eventually, tempDir } from "../../../../test/harness/harness.ts";
import { FrameParser, FrameReader, FrameWriter, Type } from "../../../protocols/guest-frames.ts";
import { FileSession } from "./file-session.ts";
import { filesOver } from "./files.ts";

const guest = useFileGuest();
const files = filesOver(guest.connect);

async function text(path: string, options?: { offset?: number; length?: number }): Promise<string> {
  return Buffer.concat(await files.read(path, options).toArray()).toString();
}

describe("bad input", () => {
  test("invalid paths are refused with a clear error", async () => {
    expect(await refusal(text(""))).toBe('invalid: Cannot read "": the path is not absolute');
    expect(await refusal(text("a/b"))).toBe('invalid: Cannot read "a/b": the path is not absolute');
    expect(await refusal(files.move("/tmp", "x"))).toBe('invalid: Cannot move "x": the path is not absolute');
    expect(await refusal(text(`/${"a/".repeat(3000)}`))).toMatch(
      /^invalid: .*\u2026": the path or a name in it is too long$/,
    );
    expect(await refusal(text(`/${"a".repeat(300)}`))).toMatch(/^invalid: .*too long$/);
    expect(await refusal(text("/a\0b"))).toMatch(/^invalid: .*NUL/);
    expect(await refusal(text(`/${"a".repeat(2 << 20)}`))).toMatch(/^invalid: /);
    expect(await refusal(text("/etc/passwd/x"))).toMatch(/^invalid: .*not a directory$/);
    expect(await refusal(files.list("/etc/passwd"))).toMatch(/^invalid: .*it is not a directory$/);
    const unfit = "invalid: Cannot ask for that file: a number does not fit its field";
    expect(await refusal(files.chmod("/tmp", -1))).toBe(unfit);
    expect(await refusal(text("/etc/passwd", { offset: -1 }))).toBe(unfit);
    expect(await refusal(text("/etc/passwd", { offset: 1.5 }))).toBe(unfit);
    expect(await refusal(text("/n\u001b[31mo"))).toBe('not-found: Cannot read "/n?[31mo": no such file or directory');
  });

  test("a malformed or unknown request is answered, and the connection goes on", async () => {
    const socket = await guest.raw();
    onTestFinished(() => void socket.destroy());
    const parser = new FrameParser();
    const answers: string[] = [];
    socket.on("data", (data: Buffer) => {
      for (const { type, id, payload } of parser.push(data)) {
        answers.push(`${id} ${type === Type.fail ? `errno ${new FrameReader(payload).u32()}` : `type ${type}`}`);
      }
    });
    const requests = Object.values(Type).filter((type) => type >= Type.read && type <= Type.fifo);
    for (const type of requests) {
      if (type === Type.write || type === Type.entry || type === Type.changed) continue;
      socket.write(new FrameWriter().u8(1).frame(type, type));
    }
    socket.write(new FrameWriter().frame(250, 250));
    // Data follows a write, even a malformed one.
    socket.write(new FrameWriter().u8(1).frame(Type.write, 300));
    socket.write(new FrameWriter().raw(Buffer.from("x")).frame(Type.data, 300));
    socket.write(new FrameWriter().frame(Type.end, 300));
    socket.write(new FrameWriter().str("/").u8(1).u8(9).frame(Type.stat, 301));
    socket.write(new FrameWriter().str("/").u8(1).frame(Type.stat, 302));
    await eventually("the last answer", () => answers.some((answer) => answer.startsWith("302")));
    const privileged = new Set<number>([Type.whiteout, Type.usage]);
    for (const answer of answers.slice(0, -4)) {
      const id = Number.parseInt(answer, 10);
      expect(answer).toBe(`${id} errno ${privileged.has(id) ? 1 : 74}`);
    }
    expect(answers.slice(-4)).toEqual(["250 errno 38", "300 errno 74", "301 errno 74", `302 type ${Type.entry}`]);
  });

  test.each([
    ["a header that claims too much", Buffer.from([0xff, 0xff, 0xff, 0x7f, Type.read, 1, 0, 0, 0])],
    [
      "a request in the middle of a write",
      Buffer.concat([
        new FrameWriter().str("/proc/none").u32(0).u32(0).u32(0).u32(0).u64(0).frame(Type.write, 1),
        new FrameWriter().str("/").u8(1).frame(Type.stat, 2),
      ]),
    ],
  ])("%s ends the connection", async (_what, bytes) => {
    const socket = await guest.raw();
    socket.resume();
    socket.write(bytes);
    await once(socket, "close");
  });

  test("random bytes crash no worker", async () => {
    const random = (seed: number) => {
      let state = seed;
      return () => {
        state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
        return state >>> 16;
      };
    };
    for (let seed = 1; seed <= 40; seed++) {
      const next = random(seed);
      const socket = await guest.raw();
      socket.on("error", () => undefined);
      socket.resume();
      for (let i = 0; i < 50; i++) {
        const payload = Buffer.from(Array.from({ length: next() % 64 }, () => next() & 0xff));
        // No random path reaches anything, but requests that change something are left out all the same.
        const types = [Type.read, Type.stat, Type.list, Type.watch, Type.walk, Type.data, Type.end, next() & 0xff];
        const type = types[next() % types.length] ?? Type.read;
        if (type === Type.remove) continue;
        socket.write(new FrameWriter().raw(payload).frame(type, next()));
      }
      socket.end();
      await once(socket, "close");
    }
  });

  test("a lost connection fails pending requests and later ones", async () => {
    const session = await guest.connect();
    const reading = session.stat("/");
    session.close();
    expect(await refusal(reading)).toMatch(/^gone: /);
    expect(await refusal(session.stat("/"))).toMatch(/^gone: /);
    expect(await refusal(all(session.list("/")))).toMatch(/^gone: /);
    expect(await refusal(session.write("/x", Buffer.from("")))).toMatch(/^gone: /);
  });
});

describe("races", () => {
  // A swap hits the moment between two checks of a name about once in a thousand tries.
  const tries = 20_000;
  const atOnce = 100;

  /** a directory in `tree` that is constantly swapped for a symlink to `outside`, which holds secrets */
  async function swapped(): Promise<{ tree: string; outside: string }> {
    const directory = await tempDir();
    const outside = await tempDir();
    for (let i = 0; i < 20; i++) await fs.writeFile(join(outside, `secret${i}`), "");
    const tree = join(directory, "tree");
    const link = join(directory, "link");
    await fs.mkdir(join(tree, "swapped"), { recursive: true });
    await fs.writeFile(join(tree, "swapped/kept"), "");
    await fs.symlink(outside, link);
    // Everyone may remove files in these, but not in the swapped directory, so that one always exists.
    for (const path of [directory, tree, outside]) await fs.chmod(path, 0o777);
    const swapper = spawn(guest.program, ["swap", join(tree, "swapped"), link, outside]);
    const exited = once(swapper, "exit");
    onTestFinished(async () => {
      swapper.kill("SIGKILL");
      await exited;
    });
    await once(swapper.stdout, "data");
    return { tree, outside };
  }

  test("a walk never follows a directory that is swapped for a symlink", async () => {
    const { tree } = await swapped();
    const session = await guest.connect();
    onTestFinished(() => session.close());
    for (let i = 0; i < tries; i += atOnce) {
      const walks = Array.from({ length: atOnce }, () => all(session.walk(tree)));
      const paths = (await Promise.all(walks)).flat().map(({ entry }) => entry.path);
      expect(paths.filter((path) => path.includes("secret"))).toEqual([]);
    }
  });

  test("a removal never reaches through a directory that is swapped for a symlink", async () => {
    const { tree, outside } = await swapped();
    const plain = await startFileGuest(guest.program, { user: { uid: 65_534, gid: 65_534 } });
    onTestFinished(() => plain.stop());
    const session = await plain.connect();
    onTestFinished(() => session.close());
    const remove = () => session.remove(join(tree, "swapped"), { recursive: true });
    for (let i = 0; i < tries; i += atOnce) {
      await Promise.allSettled(Array.from({ length: atOnce }, () => remove()));
    }
    expect((await fs.readdir(outside)).filter((name) => name.startsWith("secret"))).toHaveLength(20);
  });
});

describe("one connection", () => {
  test("answers many requests that were made without waiting", async () => {
    const directory = await tempDir();
    const session = await guest.connect();
    onTestFinished(() => session.close());
    const made = Array.from({ length: 200 }, (_, i) => session.write(join(directory, `${i}`), Buffer.from(`${i}`)));
    const wrong = refusal(session.write(join(directory, "no/no"), Buffer.alloc(1 << 20)));
    const listed = all(session.list(directory));
    await Promise.all(made);
    expect(await wrong).toMatch(/^not-found: /);
    expect(await listed).toHaveLength(200);
  });
});

describe("a guest that lies", () => {
  /** a session whose other end sends `answer` to any first request */
  function lying(answer: Buffer): FileSession {
    const [ours, theirs] = duplexPair();
    theirs.once("data", () => theirs.write(answer));
    return new FileSession(ours);
  }
  const entry = new FrameWriter()
    .str("x")
    .u8(99)
    .u64(0)
    .u32(0)
    .u32(0)
    .u32(0)
    .u64(0)
    .u32(0)
    .u32(0)
    .u32(0)
    .str("")
    .u16(0);

  test.each([
    ["an answer to no request", new FrameWriter().frame(Type.ok, 77)],
    ["an answer of the wrong kind", new FrameWriter().frame(Type.end, 1)],
    ["an answer longer than any may be", Buffer.from([0xff, 0xff, 0xff, 0xff, 1, 1, 0, 0, 0])],
    ["a file of an unknown type", entry.frame(Type.entry, 1)],
    ["facts that are cut off", new FrameWriter().str("x").frame(Type.entry, 1)],
  ])("%s is an error, and nothing hangs", async (_what, answer) => {
    expect(await refusal(lying(answer).stat("/"))).toMatch(/^internal: Cannot finish the file request: /);
  });

  test("requests that wait behind the lie fail too", async () => {
    const session = lying(new FrameWriter().frame(Type.ok, 77));
    const waiting = [
      session.stat("/"),
      session.mkdir("/x"),
      session.write("/y", Buffer.alloc(10)),
      all(session.list("/")),
    ];
    for (const promise of waiting) expect(await refusal(promise)).toMatch(/^(internal|gone): /);
  });
});
