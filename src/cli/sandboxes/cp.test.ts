/** Tests of how the words of `sandkeep cp` and `sandkeep events` are read and shown, and of where cp writes. */

import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { TarWriter } from "../../base/tar/writer.ts";
import type { RemoteFiles } from "../files/remote-files.ts";
import { download, placeOf } from "./cp.ts";
import { eventLine, pastOf } from "./events.ts";

test("a word with a colon before any slash names a sandbox", () => {
  expect(placeOf("demo:/tmp/a:b")).toEqual({ sandbox: "demo", path: "/tmp/a:b" });
  expect(placeOf("demo:")).toEqual({ sandbox: "demo", path: "." });
  for (const path of ["./a:b", "/a:b", "file", ".", ":x"]) expect(placeOf(path)).toEqual({ path });
});

test("an event is one line, whatever its texts contain", () => {
  const event = { type: "command.started", at: 0, cursor: "x-1", sandboxId: "sandbox_1", name: "a\u001b[2J\nb" };
  expect(eventLine(event)).toBe("1970-01-01 00:00:00.000  command.started       name=a\\u001b[2J\\u000ab");
});

test("a gap says what it means", () => {
  expect(eventLine({ type: "gap", at: 0, cursor: "x-1" })).toMatch(/ {2}gap +events may be missing here: /);
});

test("of past events, those since a time or the last ones are shown", () => {
  const events = [1, 2, 3].map((at) => ({ at }));
  expect(pastOf(events, {})).toEqual(events);
  expect(pastOf(events, { from: 2 })).toEqual([{ at: 2 }, { at: 3 }]);
  expect(pastOf(events, { limit: 1 })).toEqual([{ at: 3 }]);
  expect(pastOf(events, { limit: 9, from: 3 })).toEqual([{ at: 3 }]);
  expect(pastOf(events, { limit: 0 })).toEqual([]);
});

const context = {
  errors: { isTTY: false } as NodeJS.WriteStream,
  warn: () => undefined,
  write: async () => undefined,
  now: () => 0,
};

test("a file keeps its holes, and is refused if it does not fit", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-cp-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const zeros = async function* () {
    for (let at = 0; at < 32; at++) yield Buffer.alloc(1 << 20);
  };
  const remote = (size: number) =>
    ({
      absolute: (path: string) => path,
      find: async () => ({ type: "file", targetType: null, mode: 0o640, size }),
      read: async () => zeros(),
    }) as unknown as RemoteFiles; // only what a download uses
  const copy = (size: number, to: string) => download({ path: "/big" }, { path: to }, remote(size), context);
  const place = await copy(32 << 20, folder);
  const { size, blocks, mode } = await stat(place);
  expect([size, blocks, mode & 0o777]).toEqual([32 << 20, 0, 0o640]);
  await expect(copy(2 ** 47, join(folder, "other"))).rejects.toThrow(/^Cannot write ".+other": it has 140\.7 TB, and /);
  expect(await readdir(folder)).toEqual(["big"]);
  await copy(2 ** 47, "/dev/null");
});

test("a copy through a symlink has the mode of the file that it leads to, or is its owner's only", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-cp-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const link = (target: string) => ({ type: "symlink", targetType: "file", mode: 0o777, size: 3, target });
  const files: Record<string, unknown> = {
    "/work/link": link("../secret/link"),
    "/secret/link": link("key"),
    "/secret/key": { type: "file", targetType: null, mode: 0o640, size: 3, target: null },
    "/work/elsewhere": link("not/found"),
    "/work/loop": link("loop"),
  };
  const content = async function* () {
    yield Buffer.from("key");
  };
  const remote = {
    absolute: (path: string) => path,
    find: async (path: string) => files[path],
    read: async () => content(),
  } as unknown as RemoteFiles; // only what a download uses
  const modeOf = async (path: string) =>
    (await stat(await download({ path }, { path: folder }, remote, context))).mode & 0o777;
  expect(await modeOf("/work/link")).toBe(0o640);
  expect(await modeOf("/work/elsewhere")).toBe(0o600);
  expect(await modeOf("/work/loop")).toBe(0o600);
});

test("a symlink that an earlier copy left in the target is not followed", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-cp-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [here, outside] = [join(folder, "here"), join(folder, "outside")];
  await mkdir(here);
  await mkdir(outside);
  await writeFile(join(outside, "file"), "untouched");
  await symlink(outside, join(here, "sub"));
  await symlink(join(outside, "file"), join(here, "file"));
  const content = async function* () {
    yield Buffer.from("bad");
  };
  const archive = async function* () {
    const tar = new TarWriter();
    yield* tar.small({ type: "file", name: "new" }, Buffer.from("bad"));
    yield* tar.end();
  };
  const remote = (type: string) =>
    ({
      absolute: (path: string) => path,
      find: async () => ({ type, targetType: null, mode: 0o644 }),
      pack: async () => archive(),
      read: async () => content(),
    }) as unknown as RemoteFiles; // only what a download uses
  const copy = (type: string, from: string, to: string) =>
    download({ path: from }, { path: to }, remote(type), context);
  await expect(copy("directory", "/work/sub", here)).rejects.toThrow('sub": it is a symlink');
  await expect(copy("file", "/work/file", here)).rejects.toThrow('file": it is a symlink');
  await expect(copy("file", "/work/file", join(here, "file"))).rejects.toThrow('file": it is a symlink');
  expect(await readdir(outside)).toEqual(["file"]);
  expect(await readFile(join(outside, "file"), "utf8")).toBe("untouched");
  // A directory that the caller names may be reached through a symlink.
  expect(await copy("directory", "/work/.", join(here, "sub"))).toBe(join(here, "sub"));
  expect(await readFile(join(outside, "new"), "utf8")).toBe("bad");
});
