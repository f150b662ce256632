/** df and statfs() show a sandbox its own disk: its limit and what it has written, on its root and on its drives. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { begin, run, shell, users } from "./inside.ts";

const mebibyte = 1 << 20;
const disk = 256 * mebibyte;
const driveSize = 64 * mebibyte;

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;

beforeAll(async () => {
  host = await withRuntime(undo);
  await host.runtime.drives.create("views", { maxSize: driveSize });
  machine = await host.boot({ limits: { disk }, mounts: [{ drive: "views", path: "/drive", mode: "read-write" }] });
});

const sizes = (path: string) => `df -B1 --output=size,used,avail ${path} | tail -1`;
const numbers = (line: string) => line.trim().split(/ +/).map(Number) as [number, number, number];

describe.each(users)("to %s inside", (user) => {
  test("df shows the limit and what was written, at once", async () => {
    const [size, used, free] = numbers(await shell(machine, user, sizes("/")));
    expect(size).toBe(disk);
    expect(used + free).toBe(disk);
    await shell(machine, user, `head -c 50M /dev/urandom > /tmp/file-of-${user}`);
    const [, more] = numbers(await shell(machine, user, sizes("/tmp")));
    expect(more - used).toBeGreaterThan(45 * mebibyte);
    expect(more - used).toBeLessThan(60 * mebibyte);
  });

  test("a drive has its own size", async () => {
    const [size] = numbers(await shell(machine, user, sizes("/drive")));
    expect(size).toBe(driveSize);
  });

  test.each([
    ["a relative path", "cd /usr && stat -f -c %T ."],
    ["a descriptor", "python3 -c 'import os; print(os.fstatvfs(os.open(\"/etc\", 0)).f_blocks * 4096)'"],
    ["another file system", "stat -f -c %T /proc /dev/shm | tr '\\n' ' '"],
    ["a path through /proc/self", "stat -f -c %T /proc/self/cwd/"],
  ])("%s is resolved as the program would resolve it", async (_, line) => {
    const expected = line.includes("python3") ? `${disk}` : line.includes("shm") ? "proc tmpfs" : "overlayfs";
    expect((await shell(machine, user, `cd / && ${line}`)).trim()).toBe(expected);
  });

  test("errors are those of the real system call", async () => {
    const why = async (path: string) => (await run(machine, user, ["stat", "-f", path])).out;
    expect(await why("/nowhere")).toContain("No such file or directory");
    expect(await why("/etc/passwd/x")).toContain("Not a directory");
    expect(await why("")).toContain("No such file or directory");
    expect(await why(`/${"x".repeat(5000)}`)).toContain("File name too long");
    await shell(machine, "root", "mkdir -p -m 700 /root/shut/inner");
    expect(await why("/root/shut/inner")).toContain(user === "root" ? "overlayfs" : "Permission denied");
  });
});

test("a program in a chroot sees nothing outside of it", async () => {
  await shell(machine, "root", "mkdir -p /jail/bin && cp /bin/busybox /jail/bin/ 2>/dev/null || true");
  const jailed = `import os; os.chroot("/jail"); os.chdir("/")
for path in ["/bin", "/../../etc", "/proc"]:
  try: print(os.statvfs(path).f_blocks > 0)
  except OSError as error: print(error.errno)`;
  expect(await shell(machine, "root", `python3 -c '${jailed}'`)).toBe("True\n2\n2\n");
});

test("a resumed machine has its limit and what it wrote before", async () => {
  const first = await host.boot({ limits: { disk } });
  await shell(first, "1000", "head -c 30M /dev/urandom > /tmp/file");
  const end = await first.stop({ snapshot: true });
  if (!end.snapshot) throw new Error("There is no snapshot");
  const second = await host.boot({ limits: { disk }, root: { snapshot: end.snapshot.id } });
  const [size] = numbers(await shell(second, "1000", sizes("/")));
  expect(size).toBe(disk);
  await second.stop();
});

test("hostile calls harm only the program that makes them", async () => {
  // unmapped memory, memory that the agent itself serves, and the helper killed again and again
  const hostile = `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.statfs(b"/", ctypes.c_void_p(16)), ctypes.get_errno())
print(libc.statfs(ctypes.c_void_p(16), ctypes.c_void_p(16)), ctypes.get_errno())
print(libc.sysinfo(ctypes.c_void_p(16)), ctypes.get_errno())
libc.mmap.restype = ctypes.c_void_p
served = libc.mmap(None, 4096, 3, 2, os.open("/proc/meminfo", os.O_RDONLY), 0)
print(libc.statfs(ctypes.c_void_p(served), ctypes.c_void_p(16)), ctypes.get_errno())`;
  expect(await shell(machine, "1000", `python3 -c '${hostile}'`)).toBe("-1 14\n".repeat(4));
  const killer = await begin(machine, "root", [
    "sh",
    "-c",
    "while :; do pkill -9 sandkeep-grants; pkill -STOP sandkeep-grants; done",
  ]);
  for (let i = 0; i < 20; i++) await run(machine, "root", ["df", "/"]);
  await killer.signal(9);
  expect(numbers(await shell(machine, "1000", sizes("/")))[0]).toBe(disk);
});
