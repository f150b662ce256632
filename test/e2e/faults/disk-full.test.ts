/**
 * The host's disk runs full below a daemon, from outside and from inside sandboxes: growth is refused in time, nothing
 * acknowledged is lost, the store stays writable, and everything continues by itself once there is room.
 */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { createGzip, gzipSync } from "node:zlib";
import { pack } from "tar-stream";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type SmallDisk, smallDisk } from "../../disks/small-disk.ts";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { stopwatch } from "../../harness/stopwatch.ts";
import { raw } from "../clients.ts";

const mebibyte = 2 ** 20;
const reserve = 160 * mebibyte;
const undo = new AsyncDisposableStack();
let disk: SmallDisk;
let daemon: TestDaemon;

beforeAll(async () => {
  disk = await smallDisk(undo, 1400 * mebibyte);
  daemon = await startDaemon(undo, { SANDKEEP_DISK_RESERVE: "160M" }, { folder: disk.directory });
});
afterEach(() => disk.empty());
afterAll(() => undo.disposeAsync());

test("on a disk that is filled from outside growth is refused with 507, and everything continues when there is room", async () => {
  const session = await create("outside");
  await write("outside", "kept", "before the disk was full");
  const before = await metrics();
  expect(before).toContain("sandkeep_disk_growth_stopped 0\n");
  expect(before).toContain("sandkeep_machines 1\n");
  expect(before).toContain('sandkeep_sessions{state="running"} 1\n');
  disk.fill(reserve / 4);
  await refusesGrowth();
  expect(await metrics()).toContain("sandkeep_disk_growth_stopped 1\n");
  const refused = await tryCreate("refused");
  expect(refused.json.error).toMatchObject({ code: "insufficient_storage" });
  expect(refused.json.error.message).toMatch(/^Cannot start a sandbox: the host's disk has [\d.]+ MiB left/);
  expect((await raw(daemon, "GET", "/v2/sandboxes/refused")).status).toBe(404);
  // Reading, running and deleting still work; adding to files does not.
  expect(await read("outside", "kept")).toBe("before the disk was full");
  expect(await sh(session, "head -c 1000000 /dev/zero > more")).not.toBe(0);
  expect(await sh(session, "rm -f more && true")).toBe(0);
  expect((await upload(session, "uploaded")).status).toBe(507);
  expect(daemon.complaints().match(/no sandbox is started and none can add to its files/g)).toHaveLength(1);
  const { stdout } = await promisify(execFile)(sandkeepCommand(), ["doctor", "--data-dir", daemon.dataDir], {
    env: { ...process.env, SANDKEEP_DISK_RESERVE: "160M" },
  });
  const importing = promisify(execFile)(sandkeepCommand(), ["image", "import", "/dev/null"], {
    env: {
      ...process.env,
      SANDKEEP_DISK_RESERVE: "160M",
      SANDKEEP_DATA_DIR: daemon.dataDir,
      SANDKEEP_RUN_DIR: daemon.runDir,
    },
  });
  await expect(importing).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^sandkeep: Cannot bring in an image: the host's disk has [\d.]+ MiB left, and 160 MiB/,
    ),
  });
  expect(stdout).toMatch(/!! {2}disk .* free, less than the reserve of .*: sandboxes cannot grow/);
  disk.empty();
  await allowsGrowth();
  await eventually("it can write", async () => (await sh(session, "head -c 1000000 /dev/zero > more")) === 0);
  expect((await upload(session, "uploaded")).status).toBeLessThan(300);
  await expect.poll(() => daemon.complaints()).toContain("has room again");
});

test("an upload under way when the disk becomes short of room is answered 507 with a sentence", async () => {
  await allowsGrowth();
  const session = await create("uploader");
  const tar = pack();
  const size = 64 * mebibyte;
  tar.entry({ name: "first" }, "content");
  const member = tar.entry({ name: "large", size });
  const answer = fetch(`${daemon.url}/v2/sandboxes/sessions/${session}/fs/write`, {
    method: "POST",
    headers: { authorization: `Bearer ${daemon.key}`, "content-type": "application/gzip" },
    body: Readable.toWeb(tar.pipe(createGzip({ level: 0 }))) as ReadableStream,
    duplex: "half",
  });
  member.write(randomBytes(mebibyte));
  await eventually("it has begun", async () => (await sh(session, "test -s first")) === 0);
  disk.fill(reserve / 4);
  await refusesGrowth();
  for (let sent = mebibyte; sent < size - mebibyte; sent += mebibyte) member.write(randomBytes(mebibyte));
  member.end(randomBytes(mebibyte));
  tar.finalize();
  const { status, body } = await answer.then(async (given) => ({ status: given.status, body: await given.json() }));
  const { error } = body as { error: { message: string } };
  expect([status, error.message]).toEqual([
    507,
    expect.stringMatching(/^Cannot use files: the host's disk has .* left/),
  ]);
});

test.each([
  ["the disk below the store", 400 * mebibyte],
  ["the store", 1400 * mebibyte],
])("sandboxes that write all they can never fill %s", async (_what, left) => {
  disk.fill(left);
  await allowsGrowth();
  const sessions = await Promise.all(["one", "two"].map((name) => create(`${name}-${left}`)));
  await write(`one-${left}`, "kept", "of a writer");
  // The reserve stops each of them, and freed room can be used again.
  const filled = await Promise.all(
    sessions.map((id) =>
      sh(
        id,
        "head -c 20000000 /dev/urandom > f; i=0; while dd if=f of=f$i bs=1M status=none; do i=$((i+1)); done; sync; exit 7",
      ),
    ),
  );
  expect(filled).toEqual([7, 7]);
  expect(disk.free()).toBeGreaterThan(8 * mebibyte);
  expect(isReadOnly()).toBe(false);
  expect((await tryCreate()).status).toBe(507);
  for (const id of sessions) expect(await sh(id, "rm -f f*; sync")).toBe(0);
  await allowsGrowth();
  expect(await read(`one-${left}`, "kept")).toBe("of a writer");
  await eventually("it can write", async () => (await sh(sessions[0] ?? "", "echo > more")) === 0);
});

test("a store whose room was taken in advance is unaffected when the disk is filled to its last byte at once", async () => {
  await using mine = new AsyncDisposableStack();
  const other = await smallDisk(mine, 1800 * mebibyte);
  const settings = { SANDKEEP_DISK_RESERVE: "160M", SANDKEEP_STORE_SIZE: "1G" } as const;
  const own = await startDaemon(mine, settings, { folder: other.directory });
  const session = await create("writer", own);
  await start(session, busyWriter, own);
  for (let round = 0; round < 3; round++) {
    other.fill(0);
    await refusesGrowth(own);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(isReadOnly(own)).toBe(false);
    other.empty();
    await allowsGrowth(own);
  }
  await write("writer", "kept", "acknowledged", own);
  other.fill(0);
  await refusesGrowth(own);
  // The database is on the full disk too: a stop is done, or is refused and done once there is room.
  const stopped = await raw(own, "POST", `/v2/sandboxes/sessions/${session}/stop`);
  expect([200, 507], stopped.text).toContain(stopped.status);
  other.empty();
  await allowsGrowth(own);
  expect((await raw(own, "POST", `/v2/sandboxes/sessions/${session}/stop`)).status).toBeLessThan(300);
  expect(await read("writer", "kept", own)).toBe("acknowledged");
});

test("a store that exists takes its room in advance only where the reserve stays free", async () => {
  await using mine = new AsyncDisposableStack();
  const other = await smallDisk(mine, 1800 * mebibyte);
  const own = await startDaemon(mine, { SANDKEEP_DISK_RESERVE: "160M" }, { folder: other.directory });
  await own.stop();
  other.fill(800 * mebibyte);
  const free = other.free();
  const said = await own.start({ SANDKEEP_STORE_SIZE: "1G" }).catch((error: Error) => error.message);
  expect(said).toMatch(/Cannot reserve the room of the store ".*": it needs .* more, and its disk has .* left/);
  expect(other.free()).toBeGreaterThan(free - 8 * mebibyte);
  await own.start({ SANDKEEP_STORE_SIZE: "" });
  await allowsGrowth(own);
});

test("a start on a full disk serves and refuses growth, or says why it cannot and ends in seconds", async () => {
  for (const hasReserve of [true, false]) {
    await daemon.stop();
    if (!hasReserve) rmSync(join(daemon.dataDir, "reserve"), { force: true });
    disk.fill(0);
    const lasted = stopwatch();
    const said = await daemon.start().catch((error: Error) => error.message);
    expect(lasted()).toBeLessThan(30_000);
    // Without a daemon there is no watch: the store may have gone read-only, or the room may be enough to serve.
    if (said === undefined) {
      // The store frees deleted data a while later, which may be more than the reserve.
      disk.fill(0);
      await refusesGrowth();
    } else
      expect(said).toMatch(/Cannot (serve ".*": its disk has|use the store ".*", which is read-only: the host's disk)/);
    disk.empty();
    if (said !== undefined) await daemon.start();
    await allowsGrowth();
  }
  expect(await read("outside", "kept")).toBe("before the disk was full");
});

test("a store that went read-only without a watch comes back by itself, with all that was acknowledged", async () => {
  await allowsGrowth();
  const session = await acknowledged("read-only");
  await start(session, busyWriter);
  process.kill(daemon.pid, "SIGSTOP");
  try {
    await makeReadOnly();
  } finally {
    process.kill(daemon.pid, "SIGCONT");
  }
  disk.empty();
  await eventually("the store is writable", () => !isReadOnly());
  await allowsGrowth();
  expect(await read("read-only", "kept")).toBe("acknowledged");
});

test("a start finds a store that went read-only: on a full disk it ends with a sentence, else it repairs it", async () => {
  await allowsGrowth();
  const session = await acknowledged("at-the-start");
  await start(session, busyWriter);
  await daemon.kill9();
  await makeReadOnly();
  const lasted = stopwatch();
  const said = await daemon.start().catch((error: Error) => error.message);
  expect(lasted()).toBeLessThan(20_000);
  expect(said).toMatch(/Cannot (use the store ".*", which is read-only: the host's disk has|serve ".*": its disk has)/);
  disk.empty();
  await daemon.start();
  expect(isReadOnly()).toBe(false);
  expect(await read("at-the-start", "kept")).toBe("acknowledged");
});

/** writes data and metadata of files, and flushes them to the disk; always needs new room */
const busyWriter =
  "i=0; while true; do mkdir -p busy/$i; for j in $(seq 300); do echo $j > busy/$i/$j; done; head -c 300000 /dev/urandom > busy/$i/data; sync; i=$((i+1)); done";

/** needs a running writer, and no daemon that watches the disk */
async function makeReadOnly(): Promise<void> {
  await eventually("the store is read-only", () => {
    disk.fill(0);
    return isReadOnly();
  });
}

function isReadOnly(at = daemon): boolean {
  const store = join(at.dataDir, "store");
  const line = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .find((line) => line.split(" ")[4] === store);
  if (line === undefined) throw new Error("The store is not mounted");
  return / - btrfs \S+ ro(,|$)/.test(line);
}

async function refusesGrowth(at = daemon): Promise<void> {
  await eventually("growth is refused", async () => (await tryCreate(undefined, at)).status === 507);
}

async function allowsGrowth(at = daemon): Promise<void> {
  await eventually("growth is allowed", async () => (await tryCreate(undefined, at)).status === 200);
}

let names = 0;

function tryCreate(name = `try-${names++}`, at = daemon) {
  return raw(at, "POST", "/v3/sandboxes", { body: { name } });
}

async function create(name: string, at = daemon): Promise<string> {
  const made = await tryCreate(name, at);
  expect(made, made.text).toMatchObject({ status: 200 });
  return made.json.session.id;
}

/** a running sandbox whose file "kept" a stop has acknowledged; sync inside a sandbox promises nothing */
async function acknowledged(name: string): Promise<string> {
  const first = await create(name);
  await write(name, "kept", "acknowledged");
  expect((await raw(daemon, "POST", `/v2/sandboxes/sessions/${first}/stop`)).status).toBeLessThan(300);
  const { json, text } = await raw(daemon, "GET", `/v2/sandboxes/${name}?resume=true`);
  expect(json.session, text).toBeDefined();
  return json.session.id;
}

async function start(session: string, script: string, at = daemon): Promise<void> {
  const body = { command: "sh", args: ["-c", script] };
  expect((await raw(at, "POST", `/v2/sandboxes/sessions/${session}/cmd`, { body })).status).toBe(200);
}

/** the exit code of a script */
async function sh(session: string, script: string, at = daemon): Promise<number> {
  const body = { command: "sh", args: ["-c", script], wait: true };
  const answer = await raw(at, "POST", `/v2/sandboxes/sessions/${session}/cmd`, { body });
  expect(answer.status, answer.text).toBe(200);
  return Number(/"exitCode":(\d+)/.exec(answer.text)?.[1]);
}

async function write(name: string, path: string, content: string, at = daemon): Promise<void> {
  const { json } = await raw(at, "GET", `/v2/sandboxes/${name}?resume=true`);
  expect(await sh(json.session.id, `printf %s "${content}" > ${path}`, at)).toBe(0);
}

async function read(name: string, path: string, at = daemon): Promise<string> {
  const { json, text } = await raw(at, "GET", `/v2/sandboxes/${name}?resume=true`);
  expect(json.session, text).toBeDefined();
  return (await raw(at, "POST", `/v2/sandboxes/sessions/${json.session.id}/fs/read`, { body: { path } })).text;
}

async function upload(session: string, name: string) {
  const tar = pack();
  tar.entry({ name }, "content");
  tar.finalize();
  const body = gzipSync(Buffer.concat(await Array.fromAsync(tar as AsyncIterable<Buffer>)));
  const headers = { "content-type": "application/gzip" };
  return raw(daemon, "POST", `/v2/sandboxes/sessions/${session}/fs/write`, { body, headers });
}

async function metrics(): Promise<string> {
  const response = await fetch(`${daemon.url}/metrics`, { headers: { authorization: `Bearer ${daemon.key}` } });
  expect(response.status).toBe(200);
  const text = await response.text();
  expect(text).toContain(`sandkeep_disk_reserve_bytes{place="disk"} ${reserve}\n`);
  return text;
}
