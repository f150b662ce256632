/** The journal's reader against files made here as an agent would make them, and as none would. */

import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import type { OutputChunk } from "../../../core/ports/runtime.ts";
import { FrameWriter } from "../../../protocols/guest-frames.ts";
import { journalEnd, type OutputState, readInfo, readJournal } from "./journal.ts";

const stdout = 1;
const stderr = 2;

/** writes segments as guest/agent/journal.c does */
class Journal {
  readonly directory: string;
  end = 0;
  #segment: string | undefined;

  constructor(directory: string) {
    this.directory = directory;
  }

  begin(): this {
    this.#segment = join(this.directory, `c.${this.end.toString(16).padStart(16, "0")}`);
    writeFileSync(this.#segment, "");
    return this;
  }

  add(text: string | Buffer, stream = stdout): this {
    if (this.#segment === undefined) this.begin();
    const data = Buffer.from(text);
    this.raw(Buffer.concat([head(stream, data.length), data]));
    this.end += data.length;
    return this;
  }

  /** bytes as they are, which count as no output */
  raw(bytes: Buffer): this {
    writeFileSync(this.#segment ?? "", bytes, { flag: "a" });
    return this;
  }

  /** output for which the disk had no room */
  lose(length: number): this {
    this.end += length;
    this.#segment = undefined;
    return this;
  }
}

function head(stream: number, length: number): Buffer {
  const bytes = Buffer.alloc(5);
  bytes.writeUInt8(stream, 0);
  bytes.writeUInt32LE(length, 1);
  return bytes;
}

async function journal(): Promise<Journal> {
  return new Journal(await tempDir());
}

/** a command that has ended with this much output */
function ended(end: number): OutputState {
  return { end, ended: true, changed: () => Promise.resolve() };
}

async function read(from: Journal, options: { from?: number; end?: number } = {}): Promise<OutputChunk[]> {
  const chunks: OutputChunk[] = [];
  const state = ended(options.end ?? from.end);
  for await (const chunk of readJournal(from.directory, "c", state, { from: options.from ?? 0, follow: true })) {
    chunks.push(chunk);
  }
  return chunks;
}

const text = (chunks: OutputChunk[]) => Buffer.concat(chunks.map((chunk) => chunk.data)).toString();
const dropped = (chunks: OutputChunk[]) => chunks.reduce((sum, chunk) => sum + (chunk.dropped ?? 0), 0);

describe("reading a journal", () => {
  test("gives the records in order, with their stream and offset", async () => {
    const written = (await journal()).add("one ").add("two ", stderr).add("three");
    expect(await read(written)).toEqual([
      { offset: 0, stream: "stdout", data: Buffer.from("one ") },
      { offset: 4, stream: "stderr", data: Buffer.from("two ") },
      { offset: 8, stream: "stdout", data: Buffer.from("three") },
    ]);
  });

  test("goes from segment to segment", async () => {
    const written = (await journal()).add("a").begin().add("b").begin().begin().add("c");
    expect(text(await read(written))).toBe("abc");
  });

  test("begins at any offset: in a record, at its edges, in a later segment, at the end and past it", async () => {
    const written = (await journal()).add("0123").add("4567", stderr).begin().add("89ab").begin().add("cdef");
    const whole = "0123456789abcdef";
    for (let from = 0; from <= whole.length + 2; from++) {
      const chunks = await read(written, { from });
      expect(text(chunks)).toBe(whole.slice(from));
      expect(dropped(chunks)).toBe(0);
      if (from < whole.length) expect(chunks[0]?.offset).toBe(from);
    }
  });

  test("a command without output has none", async () => {
    expect(await read(await journal())).toEqual([]);
  });

  test("records may be larger than what is read at once, and many in one read", async () => {
    const written = await journal();
    const large = Buffer.alloc(64 << 10, "L");
    for (let n = 0; n < 5; n++) written.add(large).add("s").add("t", stderr);
    for (let n = 0; n < 3000; n++) written.add(`${n % 10}`);
    const chunks = await read(written);
    expect(chunks.reduce((sum, chunk) => sum + chunk.data.length, 0)).toBe(written.end);
    expect(dropped(chunks)).toBe(0);
    expect(chunks.every((chunk, n) => n === 0 || chunk.offset === end(chunks[n - 1]))).toBe(true);
    const middle = await read(written, { from: (64 << 10) - 3 });
    expect(text(middle).startsWith("LLLst")).toBe(true);
  });

  test("never gives more than the command had printed when it ended", async () => {
    const written = (await journal()).add("mine, ").add("a child's");
    expect(text(await read(written, { end: 8 }))).toBe("mine, a ");
  });

  test.each([-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])("refuses to begin at %d", async (from) => {
    await expect(read(await journal(), { from })).rejects.toMatchObject({ code: "invalid" });
  });

  test("commands whose names begin alike stay apart", async () => {
    const written = (await journal()).add("mine");
    writeFileSync(join(written.directory, "c-1.0000000000000000"), Buffer.concat([head(1, 3), Buffer.from("not")]));
    writeFileSync(join(written.directory, "c.info"), "");
    writeFileSync(join(written.directory, "c.0"), "");
    expect(text(await read(written))).toBe("mine");
  });
});

describe("what is no longer kept", () => {
  test("is counted with the first chunk that is there", async () => {
    const written = (await journal()).add("gone ").begin().add("also ").begin().add("kept");
    drop(written, 0);
    expect(await read(written)).toEqual([
      { offset: 5, stream: "stdout", data: Buffer.from("also "), dropped: 5 },
      expect.anything(),
    ]);
    drop(written, 5);
    expect(await read(written)).toEqual([{ offset: 10, stream: "stdout", data: Buffer.from("kept"), dropped: 10 }]);
    expect(await read(written, { from: 7 })).toMatchObject([{ offset: 10, dropped: 3 }]);
    expect(dropped(await read(written, { from: 10 }))).toBe(0);
  });

  test("is counted when all of it is gone", async () => {
    const written = (await journal()).add("gone");
    drop(written, 0);
    const chunks = await read(written);
    expect(text(chunks)).toBe("");
    expect(dropped(chunks)).toBe(4);
    expect(chunks.at(-1)?.offset).toBe(4);
  });

  test("a full disk's gaps, in the middle and at the end, are counted where they are", async () => {
    const written = (await journal()).add("before ").lose(100).add("between ").lose(7).lose(3).add("after").lose(20);
    const chunks = await read(written);
    expect(text(chunks)).toBe("before between after");
    expect(chunks.map((chunk) => chunk.dropped)).toEqual([undefined, 100, 10, 20]);
    expect(dropped(chunks) + text(chunks).length).toBe(written.end);
    expect(dropped(await read(written, { from: 50 }))).toBe(57 + 10 + 20);
  });

  test("an empty segment that a full disk left is passed over", async () => {
    const written = (await journal()).add("a").begin().lose(5).begin().lose(5).add("b");
    const chunks = await read(written);
    expect(text(chunks)).toBe("ab");
    expect(dropped(chunks)).toBe(10);
  });

  test("a reader that is at work when its segment is deleted reads it to its end", async () => {
    const written = (await journal()).add("one ").add("two ").begin().add("three ").begin().add("four");
    const seen: string[] = [];
    for await (const chunk of readJournal(written.directory, "c", ended(written.end), { from: 0, follow: true })) {
      seen.push(Buffer.from(chunk.data).toString(), `${chunk.dropped ?? 0}`);
      if (seen.length === 2) for (const start of [0, 8]) drop(written, start);
    }
    expect(seen).toEqual(["one ", "0", "two ", "0", "four", "6"]);
  });
});

describe("a damaged journal", () => {
  test.each([
    ["an unknown stream", Buffer.concat([head(9, 4), Buffer.from("evil")])],
    ["a length that no record has", head(stdout, 0xffff_ffff)],
    ["a length past the end", Buffer.concat([head(stdout, 5000), Buffer.from("short")])],
    ["half a head", Buffer.from([1, 2])],
  ])("%s hides the rest of its segment and nothing else", async (_what, bytes) => {
    const written = (await journal()).add("good ").raw(bytes);
    written.end += 9;
    written.begin().add("later");
    const chunks = await read(written);
    expect(text(chunks)).toBe("good later");
    expect(dropped(chunks)).toBe(9);
  });

  test("a segment that was cut short counts as much as is missing", async () => {
    const written = (await journal()).add("abcdef").begin().add("ghi");
    truncateSync(join(written.directory, "c.0000000000000000"), 8);
    const chunks = await read(written);
    expect(text(chunks)).toBe("ghi");
    expect(dropped(chunks)).toBe(6);
  });

  test("a link in place of a segment is not followed", async () => {
    const written = (await journal()).add("abc");
    drop(written, 0);
    symlinkSync("/etc/passwd", join(written.directory, "c.0000000000000000"));
    expect(await read(written)).toMatchObject([{ offset: 3, dropped: 3 }]);
  });
});

describe("following", () => {
  /** a command that runs */
  class Running implements OutputState {
    end = 0;
    ended = false;
    #wake: () => void = () => {};
    async changed(signal?: AbortSignal): Promise<void> {
      signal?.throwIfAborted();
      if (this.ended) return;
      await new Promise<void>((resolve, reject) => {
        this.#wake = resolve;
        signal?.addEventListener("abort", () => reject(signal.reason));
      });
    }
    grow(end: number, over = false): void {
      this.end = end;
      this.ended = over;
      this.#wake();
    }
  }

  test("gives what is added until the command has ended", async () => {
    const written = (await journal()).add("one ");
    const state = new Running();
    state.end = written.end;
    const chunks = readJournal(written.directory, "c", state, { from: 0, follow: true });
    expect(await chunks.next()).toMatchObject({ value: { offset: 0 } });
    const next = chunks.next();
    written.begin().add("two");
    state.grow(written.end);
    expect(await next).toMatchObject({ value: { offset: 4, data: Buffer.from("two") } });
    const last = chunks.next();
    state.grow(written.end, true);
    expect(await last).toMatchObject({ done: true });
  });

  test("does not take a record that is being written", async () => {
    const written = (await journal()).add("one ");
    const state = new Running();
    state.end = written.end;
    written.raw(Buffer.concat([head(stdout, 6), Buffer.from("two")]));
    const chunks = readJournal(written.directory, "c", state, { from: 0, follow: true });
    expect(await chunks.next()).toMatchObject({ value: { data: Buffer.from("one ") } });
    const next = chunks.next();
    written.raw(Buffer.from("end"));
    state.grow(10, true);
    expect(await next).toMatchObject({ value: { data: Buffer.from("twoend") } });
  });

  test("waits for an offset that is not reached yet", async () => {
    const written = (await journal()).add("0123");
    const state = new Running();
    state.end = written.end;
    const chunks = readJournal(written.directory, "c", state, { from: 6, follow: true });
    const next = chunks.next();
    written.add("4567");
    state.grow(written.end, true);
    expect(await next).toMatchObject({ value: { offset: 6, data: Buffer.from("67") } });
  });

  test("ends when its signal aborts, also before it begins", async () => {
    const written = (await journal()).add("one ");
    const state = new Running();
    state.end = written.end;
    const controller = new AbortController();
    const chunks = readJournal(written.directory, "c", state, { from: 0, follow: true, signal: controller.signal });
    await chunks.next();
    const next = chunks.next();
    controller.abort(new Error("enough"));
    await expect(next).rejects.toThrow("enough");
    const late = readJournal(written.directory, "c", state, { from: 0, follow: true, signal: controller.signal });
    await expect(late.next()).rejects.toThrow("enough");
  });

  test("holds one descriptor, and none once nobody reads", async () => {
    const written = (await journal()).add("one ").begin().add("two");
    const open = () => readdirSync("/proc/self/fd").length;
    const before = open();
    for (let n = 0; n < 50; n++) {
      for await (const _ of readJournal(written.directory, "c", ended(written.end), { from: 0, follow: true })) break;
      await read(written);
    }
    expect(open()).toBe(before);
  });
});

describe("what a journal says about its command", () => {
  const started = () =>
    new FrameWriter().u32(42).u64(1000).u32(1).u64(99).str("ann").str("/srv").list(["echo", "hi"]).frame(1, 0);
  const exited = (flags = 0) =>
    new FrameWriter().u32(137).u32(9).u32(flags).u64(2500).u64(4096).u64(77).u64(2000).frame(2, 0);

  test("is how it began and how it ended", async () => {
    const directory = await tempDir();
    writeFileSync(join(directory, "c.info"), Buffer.concat([started(), exited(3)]));
    expect(readInfo(directory, "c")).toEqual({
      pid: 42,
      startedAt: 1000,
      pty: true,
      user: "ann",
      cwd: "/srv",
      argv: ["echo", "hi"],
      exit: {
        code: 137,
        signal: 9,
        outOfMemory: true,
        timedOut: true,
        cpuTime: 2.5,
        peakMemory: 4096,
        outputEnd: 77,
        exitedAt: 2000,
      },
    });
  });

  test("has no end while the note of it is cut short, at whichever byte", async () => {
    const directory = await tempDir();
    const path = join(directory, "c.info");
    for (let cut = 0; cut < exited().length; cut++) {
      writeFileSync(path, Buffer.concat([started(), exited().subarray(0, cut)]));
      expect(readInfo(directory, "c")).toMatchObject({ pid: 42 });
      expect(readInfo(directory, "c")?.exit).toBeUndefined();
    }
    for (let cut = 0; cut < started().length; cut++) {
      writeFileSync(path, started().subarray(0, cut));
      expect(readInfo(directory, "c")).toBeUndefined();
    }
  });

  test("nonsense and nothing are no commands", async () => {
    const directory = await tempDir();
    expect(readInfo(directory, "c")).toBeUndefined();
    writeFileSync(join(directory, "c.info"), Buffer.alloc(100, 0xff));
    expect(readInfo(directory, "c")).toBeUndefined();
    writeFileSync(join(directory, "c.info"), new FrameWriter().u8(1).frame(1, 0));
    expect(readInfo(directory, "c")).toBeUndefined();
  });

  test("a link, a pipe or a folder in its place is no command, and nobody waits for it", async () => {
    const directory = await tempDir();
    writeFileSync(join(directory, "secret"), "content");
    symlinkSync(join(directory, "secret"), join(directory, "link.info"));
    execFileSync("mkfifo", [join(directory, "pipe.info"), join(directory, "pipe.0000000000000000")]);
    mkdirSync(join(directory, "folder.info"));
    for (const command of ["link", "pipe", "folder"]) expect(readInfo(directory, command)).toBeUndefined();
    expect(journalEnd(directory, "pipe")).toBe(0);
  });

  test("where output ended is told by the last segment, for a command that died with its machine", async () => {
    const written = (await journal()).add("abc").begin().add("def");
    expect(journalEnd(written.directory, "c")).toBe(6);
    written.raw(head(stdout, 100));
    expect(journalEnd(written.directory, "c")).toBe(6);
    expect(journalEnd(written.directory, "other")).toBe(0);
  });
});

function drop(from: Journal, start: number): void {
  rmSync(join(from.directory, `c.${start.toString(16).padStart(16, "0")}`));
}

function end(chunk: OutputChunk | undefined): number {
  return (chunk?.offset ?? 0) + (chunk?.data.length ?? 0);
}
