/** Drives hold no more than their size, whatever btrfs would let a program do, and are gone when they are deleted. */

import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { places } from "../../src/runtime/linux/machines/plan.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { run, shell, users } from "./inside.ts";

const megabyte = 1 << 20;
const maxSize = 64 * megabyte;

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let drive: string;
let machine: Machine;

beforeAll(async () => {
  host = await withRuntime(undo);
});

beforeEach(async () => {
  drive = `drive-${randomUUID()}`;
  await host.runtime.drives.create(drive, { maxSize });
  machine = await host.boot({ mounts: [{ path: "/drive", drive, mode: "read-write" }] });
  return () => machine.stop();
});

/** tries every ioctl() of btrfs on a path with an argument of zeros, and prints those that the filter lets through */
const everyCommand = `python3 -c '
import errno, fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for number in range(256):
    for direction in (0, 1, 2, 3):
        for size in (0, 4, 8, 16, 24, 32, 56, 64, 88, 104, 128, 256, 512, 1024, 4096):
            command = direction << 30 | size << 16 | 0x94 << 8 | number
            try: fcntl.ioctl(fd, command, bytearray(size)) if size else fcntl.ioctl(fd, command)
            except OSError as error:
                if error.errno == errno.ENOTTY: continue
            except (OverflowError, ValueError): continue
            print(hex(command))
' `;

describe.each(users)("to %s inside", (user) => {
  test("no subvolume can be made in a drive, so nothing can be written past its limit", async () => {
    const make = `python3 -c 'import fcntl, os; fcntl.ioctl(os.open("/drive", os.O_RDONLY), 0x5000940e, bytearray(8) + b"nested" + bytes(4082))'`;
    const { code, out } = await run(machine, user, ["sh", "-c", make]);
    expect(out).toContain("Inappropriate ioctl for device");
    expect(code).not.toBe(0);
    const { out: full } = await run(machine, user, [
      "sh",
      "-c",
      "head -c 200M /dev/urandom > /drive/a; sync -f /drive",
    ]);
    expect(full).toMatch(/Disk quota exceeded|No space left/);
    expect(await host.runtime.drives.list()).toContain(drive);
    expect(Number(await shell(machine, user, "du -sm /drive | cut -f1"))).toBeLessThanOrEqual(64);
  });

  test("btrfs answers only calls that share content between files", async () => {
    const reflinks = ["0x40049409", "0x4020940d", "0xc0189436"];
    const answered = (await shell(machine, user, `${everyCommand} /drive`)).trim().split("\n").filter(Boolean);
    expect(answered.filter((command) => !reflinks.includes(command))).toEqual([]);
    await shell(
      machine,
      user,
      "cd /drive && head -c 1M /dev/urandom > one && cp --reflink=always one two && cmp one two",
    );
  });
});

/** tries each way to share content of one file with another, and prints the result and the other's content */
const share = (from: string, to: string) => `python3 - <<'END'
import fcntl, os, struct
size = 8 << 20
source, target = os.open("${from}", os.O_RDONLY), os.open("${to}", os.O_RDWR | os.O_CREAT)
ways = {
    "clone": lambda: fcntl.ioctl(target, 0x40049409, source),
    "range": lambda: fcntl.ioctl(target, 0x4020940d, struct.pack("qQQQ", source, 0, size, 0)),
    "equal": lambda: fcntl.ioctl(source, 0xc0189436, bytearray(struct.pack("QQHHIqQQiI", 0, size, 1, 0, 0, target, 0, 0, 0, 0))),
    "copy": lambda: os.copy_file_range(source, target, size, 0, 0),
}
for name, way in ways.items():
    try: way(); print(name, "done")
    except OSError as error: print(name, os.strerror(error.errno))
END`;

describe.each(users)("between two drives, to %s inside", (user) => {
  test("no content is shared: each drive counts what it holds, and copies are real copies", async () => {
    const second = `drive-${randomUUID()}`;
    await host.runtime.drives.create(second, { maxSize });
    await using both = await bootWith(drive, second);
    const line = `head -c 8M /dev/urandom > /one/file && sync -f /one && ${share("/one/file", "/two/file")}`;
    const refused = ["clone", "range", "equal"].map((way) => `${way} Operation not supported`);
    expect((await shell(both.machine, user, line)).trim().split("\n")).toEqual([
      ...refused,
      "copy Function not implemented",
    ]);
    await shell(both.machine, user, "cp /one/file /two/file && cmp /one/file /two/file && sync -f /two");
    expect(Number(await shell(both.machine, user, "df --output=used -BM /two | tail -1 | tr -d ' M'"))).toBeGreaterThan(
      7,
    );
    const fill = 'for i in $(seq 20); do cp --reflink=auto /one/file "/two/$i" || exit 1; done; sync -f /two';
    expect((await run(both.machine, user, ["sh", "-c", fill])).out).toMatch(/Disk quota exceeded|No space left/);
  });

  test("files within one drive still share content", async () => {
    const line = `head -c 8M /dev/urandom > /drive/file && ${share("/drive/file", "/drive/other")}`;
    const ways = ["clone done", "range done", "equal done", "copy done"];
    expect((await shell(machine, user, line)).trim().split("\n")).toEqual(ways);
  });
});

async function bootWith(one: string, two: string): Promise<{ machine: Machine } & AsyncDisposable> {
  const mount = (path: string, each: string) => ({ path, drive: each, mode: "read-write" as const });
  // Until then the first machine has the drive.
  await machine.stop();
  const both = await host.boot({ mounts: [mount("/one", one), mount("/two", two)] });
  return { machine: both, [Symbol.asyncDispose]: async () => void (await both.stop()) };
}

test("a drive with volumes in it is deleted with them", async () => {
  const folder = join(places(host.directory, host.runRoot).store, "drives");
  await machine.stop();
  const nested = join(folder, drive, "fs", "a", "nested");
  execFileSync("sh", ["-c", `cd "${join(folder, drive, "fs")}" && mkdir a && btrfs subvolume create a/nested >&2`]);
  execFileSync("btrfs", ["subvolume", "create", join(nested, "deeper")], { stdio: "ignore" });
  writeFileSync(join(nested, "deeper", "file"), "content");
  await host.runtime.drives.delete(drive);
  expect(await host.runtime.drives.list()).not.toContain(drive);
  expect(readdirSync(folder).filter((name) => name.includes(drive))).toEqual([]);
});

test("a deletion that was cut short is finished at the next start", async () => {
  const folder = join(places(host.directory, host.runRoot).store, "drives");
  await machine.stop();
  execFileSync("mv", [join(folder, drive), join(folder, `${drive}.deleted`)]);
  expect(await host.runtime.drives.list()).not.toContain(drive);
  await host.reopen();
  expect(existsSync(join(folder, `${drive}.deleted`))).toBe(false);
});

test("errors of the launcher do not name the host's folders", async () => {
  const failed = host.runtime.drives.resize("no-such-drive", { maxSize });
  await expect(failed).rejects.toMatchObject({ message: expect.stringContaining('"no-such-drive"') });
  await expect(failed).rejects.toMatchObject({ message: expect.not.stringContaining(host.directory) });
});
