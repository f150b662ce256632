/**
 * The guest's code by itself: it builds without a warning, agrees with the test vectors of the wire format, and
 * survives arbitrary bytes. Then whole machines run on a guest whose every memory access is checked.
 */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ExecSpec, Machine } from "../../src/core/ports/runtime.ts";
import { FrameWriter, headerLength } from "../../src/protocols/guest-frames.ts";
import { sanitizedGuest } from "../harness/guest/sanitized-guest.ts";
import { root, tempDir } from "../harness/harness.ts";
import { withRuntime } from "../harness/machine.ts";
import { needs } from "../runner/needs.ts";

const run = promisify(execFile);
const guest = join(root, "guest");

/** runs make and returns its output, which is empty if there is no warning */
async function make(build: string, ...args: string[]): Promise<string> {
  const { stdout, stderr } = await run("make", ["-s", "-C", guest, `BUILD=${build}`, ...args]);
  return stdout + stderr;
}

// The other compiler's build is what every machine of these tests runs: it was built with warnings as errors.
test("a clean build with clang has no warning", async (context) => {
  needs(context, "the command clang");
  expect(await make(join(await tempDir(), "build"), "CC=clang", "CFLAGS=-O1")).toBe("");
});

test("wire.c agrees with every vector, and the sanitisers find nothing", async () => {
  const build = join(await tempDir(), "build");
  await make(build, "wire_test");
  const { stdout, stderr } = await run(join(build, "wire_test"), [join(guest, "vectors.txt")]);
  expect(stdout).toMatch(/^\d{3,} vectors, 0 mismatches\n$/);
  expect(stderr).toBe("");
});

describe("arbitrary bytes", () => {
  let build = "";
  beforeAll(async () => {
    build = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
    await make(build, "fuzz");
  });
  afterAll(() => rm(build, { recursive: true, force: true }));

  /** inputs to begin with, so that a short run gets past the first checks */
  const seeds: Record<string, () => Promise<Buffer[]>> = {
    wire: vectorBytes,
    // a client's bytes are a step 0, preceded by their length
    agent: async () =>
      (await vectorBytes()).map((bytes) =>
        Buffer.concat([Buffer.from([0, bytes.length & 255, bytes.length >> 8]), bytes]),
      ),
    identity: async () => [
      Buffer.from(
        "bob\xffwheel,5\xffroot:x:0:0::/root:/bin/sh\nbob:x:1000:1000:Bob:/home/bob:\n\xffwheel:x:10:al,bob\n",
        "latin1",
      ),
      Buffer.from("1000:5\xff\xffbob:x:1000:1000:::\xff", "latin1"),
    ],
    // a question over UDP and the beginning of a connection over IPv6, as the kernel reports them
    nflog: async () => [
      Buffer.from(
        "450000340000400040110000c6120002c612000112340035002000000001010000010000000000000377656204746573740000010001",
        "hex",
      ),
      Buffer.from(`6000000000140640${"00".repeat(32)}123401bb000000000000000050020000`, "hex"),
    ],
    holder: async () => [
      ...["curl", "a) R 1", "("].map((name) =>
        Buffer.from(`7 (${name}) S 1 7 7 0 -1 64 1 2 3 4 5 6 7 8 20 0 1 0 9999 1 2`),
      ),
      new FrameWriter().str("curl").u16(1).u32(7).u32(7).u64(1).frame(0, 0).subarray(headerLength),
    ],
    // the kernel's init, a lookup, an open and a read: opcode, node, length, then the payload
    fuse: async () => [
      Buffer.concat([
        Buffer.from([26, 1, 16, 0, 7, 0, 0, 0, 31, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Buffer.from([1, 1, 8, 0, ...Buffer.from("meminfo\0")]),
        Buffer.from([14, 2, 8, 0, ...new Array(8).fill(0)]),
        Buffer.from([15, 2, 40, 0, 1, ...new Array(15).fill(0), 0, 16, ...new Array(22).fill(0)]),
      ]),
    ],
    redirect: async () => ["name", "/a/b", "/up/outside", "/a/root/etc", ".."].map((text) => Buffer.from(text)),
  };

  const targets = [
    { what: "frames and their fields", name: "wire", runs: 100_000 },
    { what: "passwd and group files", name: "identity", runs: 60_000 },
    { what: "redirects of a layer", name: "redirect", runs: 60_000 },
    { what: "packets that the kernel refused", name: "nflog", runs: 200_000 },
    { what: "what a sandbox says of its processes", name: "holder", runs: 60_000 },
    { what: "questions about files of /proc", name: "fuse", runs: 60_000 },
    { what: "clients and children of the agent", name: "agent", runs: 4_000 },
  ];

  test.for(targets)("as $what do no harm", async ({ name, runs }, context) => {
    needs(context, "root");
    const folder = await tempDir();
    const corpus = join(folder, "corpus");
    await mkdir(corpus);
    for (const [i, seed] of (await seeds[name]?.())?.entries() ?? []) await writeFile(join(corpus, `${i}`), seed);
    const args = [`-runs=${runs}`, "-seed=7", "-max_len=4096", "-timeout=20", `-artifact_prefix=${folder}/`, corpus];
    const options = { env: { ...process.env, TMPDIR: folder }, maxBuffer: 64 << 20 };
    const { stderr } = await run(join(build, `fuzz_${name}`), args, options);
    expect(stderr).toContain(`Done ${runs} runs`);
  });
});

describe("on a guest with sanitisers", () => {
  test("machines live and die, and the sanitisers report nothing", async (context) => {
    needs(context, "root");
    await using undo = new AsyncDisposableStack();
    const checked = await sanitizedGuest(undo);
    await using life = new AsyncDisposableStack();
    const { runtime, boot } = await withRuntime(life, {
      guest: checked.binary,
      egressEnv: checked.env,
      pool: { hot: 1, warm: 1 },
    });
    const machines = await Promise.all([boot(), boot({ network: "deny-all", sudo: false }), boot()]);
    await Promise.all(machines.map(mixedLoad));
    const [first, second, third] = machines as [Machine, Machine, Machine];
    const live = await first.snapshot();
    const { snapshot } = await second.stop({ snapshot: true });
    const copy = await boot({ root: { snapshot: live.id } });
    expect(await text(copy, "cat /root/kept")).toBe("kept");
    const other = await boot({ root: { snapshot: snapshot?.id ?? "" } });
    await mixedLoad(other);
    const ends = await Promise.all([first, third, copy, other].map((machine) => machine.stop()));
    expect(ends.map((end) => end.cause)).toEqual(["asked", "asked", "asked", "asked"]);
    expect(await runtime.reconcile()).toEqual([]);
    // The launcher checks for leaks when it ends.
    await life.disposeAsync();
    expect(await checked.reports()).toEqual([]);
  });
});

/** some of everything that a machine can do */
async function mixedLoad(machine: Machine): Promise<void> {
  await Promise.all([
    ...Array.from({ length: 8 }, (_, i) => expectText(machine, `echo ${i}; echo ${i} >&2`, `${i}\n${i}\n`)),
    manyBytes(machine),
    input(machine),
    terminal(machine),
    endings(machine),
    refusals(machine),
    // netd looks up the program of the connection, even if the connection fails
    expectText(machine, "(: <>/dev/tcp/169.254.169.254/80) 2>&-; echo tried", "tried\n"),
    files(machine),
  ]);
  await machine.setNetwork("deny-all");
  await machine.setNetwork("allow-all");
  await expect(machine.connect(9)).rejects.toMatchObject({ code: expect.any(String) });
  expect((await machine.usage()).cpuTime).toBeGreaterThan(0);
}

let commands = 0;

function start(machine: Machine, spec: Omit<ExecSpec, "id">) {
  return machine.exec({ id: `load-${++commands}`, cwd: "/", ...spec });
}

async function text(machine: Machine, line: string): Promise<string> {
  const command = await start(machine, { argv: ["sh", "-c", line] });
  const chunks: Uint8Array[] = [];
  for await (const chunk of command.output()) chunks.push(chunk.data);
  return Buffer.concat(chunks).toString();
}

async function expectText(machine: Machine, line: string, wanted: string): Promise<void> {
  const lines = (await text(machine, line)).split("\n").toSorted();
  expect(lines).toEqual(wanted.split("\n").toSorted());
}

/** more than its journal keeps, so that segments are dropped */
async function manyBytes(machine: Machine): Promise<void> {
  const command = await start(machine, { argv: ["head", "-c", "8000000", "/dev/zero"], outputLimit: 1 << 20 });
  expect((await command.exited).outputEnd).toBe(8_000_000);
}

async function input(machine: Machine): Promise<void> {
  const command = await start(machine, { argv: ["wc", "-c"], stdin: true });
  for (let i = 0; i < 8; i++) await command.write(Buffer.alloc(100_000));
  await command.closeStdin();
  expect((await command.exited).code).toBe(0);
}

async function terminal(machine: Machine): Promise<void> {
  const command = await start(machine, { argv: ["sh"], pty: { rows: 24, columns: 80 } });
  await command.resize({ rows: 50, columns: 132 });
  await command.write(Buffer.from("stty size; exit 3\n"));
  expect((await command.exited).code).toBe(3);
}

async function endings(machine: Machine): Promise<void> {
  const killed = await start(machine, { argv: ["sleep", "60"] });
  await killed.signal(15);
  expect(await killed.exited).toMatchObject({ code: 143, signal: 15 });
  const late = await start(machine, { argv: ["sleep", "60"], timeLimit: 50 });
  expect((await late.exited).timedOut).toBe(true);
  await expectText(machine, "sleep 1 & exit", "");
}

async function refusals(machine: Machine): Promise<void> {
  await expect(start(machine, { argv: ["/nowhere"] })).rejects.toMatchObject({
    code: "invalid",
    about: { kind: "executable" },
  });
  await expect(start(machine, { argv: ["true"], cwd: "/nowhere" })).rejects.toMatchObject({
    code: "invalid",
    about: { kind: "directory" },
  });
  await expect(start(machine, { argv: ["true"], user: "nobody-here" })).rejects.toMatchObject({
    code: "invalid",
    about: { kind: "user" },
  });
  await expect(start(machine, { argv: ["true"], groups: ["no-group"] })).rejects.toMatchObject({
    code: "invalid",
    about: { kind: "user" },
  });
}

async function files(machine: Machine): Promise<void> {
  const all = machine.files();
  const abort = new AbortController();
  await all.mkdir("/root/tree/deep", { recursive: true });
  const changes = await all.watch("/root/tree", { recursive: true, signal: abort.signal });
  await all.write("/root/kept", Buffer.from("kept"));
  await all.write("/root/tree/deep/file", Buffer.alloc(300_000, 7), { mode: 0o600 });
  for await (const change of changes) if (change.path.endsWith("file")) break;
  abort.abort();
  await text(machine, "ln -s deep/file /root/tree/link");
  await all.chmod("/root/tree/deep/file", 0o644);
  await all.chown("/root/tree/deep/file", 1000, 1000);
  await all.move("/root/tree/deep/file", "/root/tree/deep/moved");
  expect((await all.list("/root/tree")).map((entry) => entry.name).toSorted()).toEqual(["deep", "link"]);
  await all.extract("/root/copy", all.archive("/root/tree", { gzip: true }));
  expect((await all.stat("/root/copy/deep/moved")).size).toBe(300_000);
  await expect(all.stat("/root/nowhere")).rejects.toMatchObject({ code: "not-found" });
  await all.remove("/root/copy", { recursive: true });
  await all.remove("/root/tree", { recursive: true });
}

/** every vector of the wire that is not too long for a fuzzer */
async function vectorBytes(): Promise<Buffer[]> {
  const file = await readFile(join(guest, "vectors.txt"), "utf8");
  const blocks = file.split("\n\n").map((block) => block.split("\n").filter((line) => line.startsWith("  hex")));
  const texts = blocks.map((lines) =>
    lines
      .map((line) => line.slice(5))
      .join("")
      .replaceAll(" ", ""),
  );
  return texts.filter((hex) => hex !== "" && !hex.includes("*")).map((hex) => Buffer.from(hex, "hex"));
}
