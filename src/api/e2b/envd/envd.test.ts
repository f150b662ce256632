/** Parts of envd that need no sandbox: messages, ranges, signatures and notes about processes. */

import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import type { UserFile } from "../../../core/files/user-files.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { byteRange } from "../../kit/byte-ranges.ts";
import type { Service } from "../../kit/dialect.ts";
import { IssuedTokens } from "../access/issued-tokens.ts";
import { deadlineOf, type EnvdCall, keepaliveOf, timeoutOf, userOf } from "./call.ts";
import { filesystemMethods } from "./filesystem.ts";
import { endEvent, entryInfo, messages } from "./messages.ts";
import { ProcessNotes } from "./process-notes.ts";
import { processMethods } from "./processes.ts";
import { signerOf } from "./signature.ts";

const file: UserFile = {
  name: "a",
  path: "/a",
  type: "file",
  size: 5,
  mode: 0o644,
  uid: 1000,
  gid: 1000,
  modifiedAt: 0,
  owner: "user",
  group: "user",
};

test.each([
  [null, undefined],
  ["bytes=0-4", { from: 0, to: 5 }],
  ["bytes=8-", { from: 8, to: 10 }],
  ["bytes=8-99", { from: 8, to: 10 }],
  ["bytes=-3", { from: 7, to: 10 }],
  ["bytes=-99", { from: 0, to: 10 }],
  ["bytes=10-", "unsatisfiable"],
  ["bytes=-0", "unsatisfiable"],
  ["bytes=4-2", undefined],
  ["bytes=0-1,3-4", undefined],
  ["lines=0-1", undefined],
  ["bytes=-", undefined],
])("of ten bytes, %s is %o", (header, range) => {
  expect(byteRange(header, 10)).toEqual(range);
});

test("bytes are accepted as base64 in either alphabet, and in no other form", () => {
  const input = (stdin: unknown) => messages.sendInput.safeParse({ process: { pid: 1 }, input: { stdin } });
  expect(input("_-8=").data?.input?.stdin).toEqual(Buffer.from([255, 239]));
  expect(input("").data?.input?.stdin).toEqual(Buffer.alloc(0));
  for (const wrong of ["é", "a", "ab=c", "a b=", 7]) expect(input(wrong).success).toBe(false);
});

test("a process is selected by its pid or its tag, not by both or neither", () => {
  const named = (process: unknown) => messages.process.safeParse({ process });
  expect(named({ pid: "7" }).data?.process.pid).toBe(7);
  expect(named({ tag: "x", pid: null }).data?.process.tag).toBe("x");
  for (const wrong of [{}, { pid: 1, tag: "x" }, { pid: -1 }, { pid: 2 ** 32 }, { pid: 1.5 }, null]) {
    expect(named(wrong).success).toBe(false);
  }
});

test("members with default values may be left out, and unknown ones are ignored", () => {
  const parsed = messages.start.parse({ process: { cmd: "x", envs: null, more: 1 }, future: true });
  expect(parsed).toEqual({ process: { cmd: "x", args: [], envs: {} } });
  expect(messages.sendSignal.parse({ process: { pid: 1 }, signal: "SIGNAL_SIGTERM" }).signal).toBe(15);
  expect(messages.sendSignal.safeParse({ process: { pid: 1 }, signal: "SIGNAL_UNSPECIFIED" }).success).toBe(false);
  expect(messages.update.safeParse({ process: { pid: 1 }, pty: { size: { cols: 0, rows: 1 } } }).success).toBe(false);
});

test("the end of a process says how it ended", () => {
  expect(endEvent({ code: 0 })).toEqual({ exitCode: 0, exited: true, status: "exit status 0" });
  expect(endEvent({ code: 3 })).toEqual({ exitCode: 3, exited: true, status: "exit status 3", error: "exit status 3" });
  const killed = { exitCode: -1, exited: false, status: "signal: killed", error: "signal: killed" };
  expect(endEvent({ code: 137, signal: 9 })).toEqual(killed);
  expect(endEvent({ code: 128 + 64, signal: 64 })).toMatchObject({ status: "signal: signal 64" });
});

test("a file's metadata is printed in the wire's format, and a symlink has the type of its target", () => {
  expect(entryInfo(file)).toEqual({
    name: "a",
    type: "FILE_TYPE_FILE",
    path: "/a",
    size: "5",
    mode: 0o644,
    permissions: "-rw-r--r--",
    owner: "user",
    group: "user",
    modifiedTime: "1970-01-01T00:00:00.000Z",
  });
  const attributes = { "user.e2b.owner": "me", "user.other": "x" };
  expect(entryInfo({ ...file, attributes })).toMatchObject({ metadata: { owner: "me" } });
  const link: UserFile = { ...file, type: "symlink", mode: 0o777, target: "d", pointsTo: "/d" };
  expect(entryInfo({ ...link, targetType: "directory" })).toMatchObject({
    type: "FILE_TYPE_DIRECTORY",
    symlinkTarget: "/d",
    permissions: "Lrwxrwxrwx",
  });
  expect(entryInfo(link)).toMatchObject({ type: "FILE_TYPE_UNSPECIFIED" });
  expect(entryInfo({ ...file, type: "directory", mode: 0o1755 })).toMatchObject({
    permissions: "dtrwxr-xr-x",
    mode: 0o755,
  });
});

const asking = (headers: Record<string, string>, url = "http://h/x") => new Request(url, { headers });
const basic = (text: string) => asking({ authorization: `Basic ${Buffer.from(text).toString("base64")}` });

test("Basic authentication names the user, by name and not by number", () => {
  expect(userOf(basic("root:"))).toBe("root");
  expect(userOf(basic("root"))).toBe("root");
  for (const none of [asking({}), basic(":x"), asking({ authorization: "Bearer x" })])
    expect(userOf(none)).toBeUndefined();
  for (const wrong of ["0:", "1000:", "a b:", "../x:", "é:"])
    expect(() => userOf(basic(wrong))).toThrow("invalid username");
});

test("time limits and intervals are read from headers", () => {
  expect(timeoutOf(asking({}))).toBeUndefined();
  expect(timeoutOf(asking({ "connect-timeout-ms": "60000" }))).toBe(60_000);
  expect(timeoutOf(asking({ "connect-timeout-ms": "9999999999" }))).toBeUndefined();
  expect(() => timeoutOf(asking({ "connect-timeout-ms": "soon" }))).toThrow();
  expect(keepaliveOf(asking({ "keepalive-ping-interval": "50" }), {}).after).toBe(50_000);
  expect(keepaliveOf(asking({ "keepalive-ping-interval": "x" }), {}).after).toBe(90_000);
  expect(deadlineOf(asking({}), new AbortController().signal).isOver()).toBe(false);
});

test("a URL is signed for one file, operation, user and expiry, with one token", () => {
  const issued = new IssuedTokens();
  issued.add("i1", "t1");
  issued.add("i2", "t2");
  const sign = (...parts: string[]) =>
    `v1_${createHash("sha256").update(parts.join(":")).digest("base64").replaceAll("=", "")}`;
  const signer = (query: Record<string, string>, sandboxId?: string, method = "GET") =>
    signerOf(new Request(`http://h/files?${new URLSearchParams(query)}`, { method }), { issued, now: 5000, sandboxId });
  const signature = sign("/a", "read", "", "t2");
  expect(signer({ path: "/a" })).toBeUndefined();
  expect(signer({ path: "/a", signature })).toEqual({ sandboxId: "i2", token: "t2" });
  expect(signer({ path: "/a", signature }, "i2")).toEqual({ sandboxId: "i2", token: "t2" });
  expect(() => signer({ path: "/a", signature }, "i1")).toThrow("signature is wrong");
  expect(() => signer({ path: "/b", signature })).toThrow("signature is wrong");
  expect(() => signer({ path: "/a", username: "root", signature })).toThrow("signature is wrong");
  expect(() => signer({ path: "/a", signature }, undefined, "POST")).toThrow("signature is wrong");
  expect(() => signer({ path: "/a", signature, signature_expiration: "99" })).toThrow("signature is wrong");
  const until = (expiry: string) => ({
    path: "/a",
    signature: sign("/a", "read", "", "t1", expiry),
    signature_expiration: expiry,
  });
  expect(signer(until("6"))).toEqual({ sandboxId: "i1", token: "t1" });
  for (const late of ["5", "4", "x", ""]) expect(() => signer(until(late))).toThrow("signature is already expired");
});

test("a directory is listed to 32 levels and 10,000 entries, and deeper is refused", async () => {
  const asked: unknown[] = [];
  const list = async (...given: unknown[]) => {
    asked.push(given.at(-1));
    return [];
  };
  const { ListDir } = filesystemMethods({ core: { userFiles: { list } } } as unknown as Service);
  const answer = async (depth: number) => {
    const init = { method: "POST", headers: { "content-type": "application/json" } };
    const request = new Request("http://h/", { ...init, body: JSON.stringify({ path: "/", depth }) });
    return ListDir?.({ request, session: { id: "s" } } as unknown as EnvdCall);
  };
  expect((await answer(32))?.status).toBe(200);
  const refused = await answer(33);
  expect([refused?.status, await refused?.json()]).toEqual([
    400,
    { code: "invalid_argument", message: "Cannot list so many levels: the depth is at most 32" },
  ]);
  expect(asked).toEqual([{ depth: 32, most: 10_000, attributes: "user.e2b." }]);
});

test.each([
  ["SendInput", "append", { input: { stdin: "YQ==" } }],
  ["CloseStdin", "closeStdin", {}],
  ["Update", "resize", { pty: { size: { cols: 1, rows: 1 } } }],
])("%s to a process that ends meanwhile says that it is not there", async (name, verb, message) => {
  const command = { id: "cmd_1" };
  let exit: object | undefined;
  const commands = {
    running: async () => [{ command, pid: 7 }],
    process: async () => ({ command, pid: 7, ...(exit && { exit }) }),
    wait: async () => command,
    [verb]: async () => {
      throw new SandkeepError("gone", "The command has ended");
    },
  };
  const methods = processMethods({ core: { commands }, clock: Date.now } as unknown as Service);
  const ask = async () => {
    const init = { method: "POST", headers: { "content-type": "application/json" } };
    const body = JSON.stringify({ process: { pid: 7 }, ...message });
    const answer = await methods[name]?.({
      request: new Request("http://h/", { ...init, body }),
      session: { id: "s" },
    } as unknown as EnvdCall);
    return [answer?.status, ((await answer?.json()) as { code: string } | undefined)?.code];
  };
  // Its sandbox is gone, rather than the process.
  expect(await ask()).toEqual([503, "unavailable"]);
  exit = { code: 0 };
  expect(await ask()).toEqual([404, "not_found"]);
});

test("what cannot be a signature is refused before any token is tried", () => {
  const issued = new IssuedTokens();
  let tried = 0;
  issued.newest = () => {
    tried++;
    return [];
  };
  const signer = (query: Record<string, string>) =>
    signerOf(new Request(`http://h/files?${new URLSearchParams(query)}`), { issued, now: 5000, sandboxId: undefined });
  const signature = `v1_${"a".repeat(43)}`;
  for (const query of [
    ...["x", "", `${signature}a`, signature.slice(1), signature.replace("a", "=")].map((other) => ({
      signature: other,
    })),
    { signature, path: "a".repeat(4096) },
    { signature, username: "a".repeat(66) },
    { signature, signature_expiration: "5" },
    { signature, signature_expiration: "9".repeat(33) },
  ]) {
    expect(() => signer(query), JSON.stringify(query).slice(0, 80)).toThrow("signature is");
  }
  expect(tried).toBe(0);
  expect(() => signer({ signature, path: "a".repeat(4095), signature_expiration: "6" })).toThrow("signature is wrong");
  expect(tried).toBe(1);
});

test("an address that names no sandbox is tried with the newest 1000 tokens, and none of a sandbox that is gone", () => {
  const issued = new IssuedTokens();
  for (let i = 0; i < 1200; i++) issued.add(`i${i}`, `t${i}`);
  issued.add("i0", "t0");
  const newest = issued.newest();
  expect(newest).toHaveLength(1000);
  expect(newest[0]).toEqual({ sandboxId: "i0", token: "t0" });
  expect(newest.at(-1)).toEqual({ sandboxId: "i201", token: "t201" });
  issued.forget("i0");
  expect(issued.newest()[0]?.sandboxId).toBe("i1199");
  expect(issued.of("i0")).toEqual([]);
});

test("a process that ended is found by its last number or tag, and never one that runs", () => {
  const notes = new ProcessNotes(() => 0);
  const note = { pid: 7, tag: "x", envs: {}, isPty: false };
  notes.add("s", "one", note);
  notes.add("s", "two", { ...note, envs: { A: "b" } });
  expect(notes.ended("s", { pid: 7, tag: undefined }, new Set())).toBe("two");
  expect(notes.ended("s", { pid: undefined, tag: "x" }, new Set(["two"]))).toBe("one");
  expect(notes.ended("other", { pid: 7, tag: undefined }, new Set())).toBeUndefined();
  notes.add("s", "three", { ...note, envs: { A: "b".repeat(10_000) } });
  expect(notes.of("s", "three")?.envs).toEqual({});
});

test("a process that has ended leaves no variables, and its note goes in time or when others have come", () => {
  let now = 0;
  const notes = new ProcessNotes(() => now);
  const note = { pid: 7, tag: "x", envs: { A: "b" }, isPty: false };
  notes.add("s", "one", note);
  expect(notes.of("s", "one")?.envs).toEqual({ A: "b" });
  notes.end("s", "one");
  expect(notes.of("s", "one")).toEqual({ ...note, envs: {} });
  for (let i = 0; i < 256; i++) {
    notes.add("s", `next${i}`, note);
    notes.end("s", `next${i}`);
  }
  expect(notes.of("s", "one")).toBeUndefined();
  expect(notes.of("s", "next0")).toBeDefined();
  notes.add("s", "runs", note);
  now = 30_000;
  notes.add("other", "one", note);
  expect(notes.of("s", "next255")).toBeUndefined();
  expect(notes.of("s", "runs")).toEqual(note);
});

test("the variables of all processes together are bounded, and there is room again when one ends", () => {
  const notes = new ProcessNotes(() => 0);
  const note = { pid: 7, tag: undefined, envs: { A: "b".repeat(8191) }, isPty: false };
  for (let i = 0; i < 2048; i++) notes.add(`s${i % 3}`, `c${i}`, note);
  notes.add("s", "more", note);
  expect(notes.of("s", "more")?.envs).toEqual({});
  notes.end("s0", "c0");
  notes.add("s", "again", note);
  expect(notes.of("s", "again")).toEqual(note);
});
