/**
 * Kernel memory that is charged to no sandbox, and lists that exist once for the whole host: calls that fill them are
 * refused as by a kernel that was built without them, and what programs need still works.
 */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { withRuntime } from "../harness/machine.ts";
import { shell, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let machine: Machine;

beforeAll(async () => {
  const host = await withRuntime(undo);
  machine = await host.boot();
});

const [unknown, missing] = ["Protocol not available", "Function not implemented"];

describe.each(users)("of %s", (user) => {
  const ask = async (program: string) =>
    (await shell(machine, user, `python3 - <<'END'\n${program}\nEND`)).trim().split("\n");
  const options = (...tries: [string, number, number, string][]) =>
    ask(
      [
        "import os, socket, struct",
        "def attempt(kind, level, name, value):",
        "    try: socket.socket(*kind).setsockopt(level, name, value); print('set')",
        "    except OSError as error: print(os.strerror(error.errno))",
        "tcp, udp = (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)",
        "udp6 = (socket.AF_INET6, socket.SOCK_DGRAM)",
        ...tries.map(([kind, level, name, value]) => `attempt(${kind}, ${level}, ${name}, ${value})`),
      ].join("\n"),
    );

  test("keys of peers, labels of flows, copies of sent data and held-back datagrams are refused", async () => {
    const refused = await options(
      [
        "tcp",
        6,
        14,
        "struct.pack('HH', 2, 9) + socket.inet_aton('127.0.0.1') + bytes(120) + struct.pack('xxHxxxx', 3) + b'key' + bytes(77)",
      ],
      ["tcp", 6, 38, "bytes(288)"],
      ["udp6", 41, 32, "bytes(15) + b'\\1' + struct.pack('IBBHHHI', 0, 0, 255, 1, 0, 0, 0)"],
      ["udp", 1, 37, "1 << 1 | 1 << 4"],
      ["udp", 17, 1, "1"],
      ["udp", 0, 39, "socket.inet_aton('232.0.0.1') + socket.inet_aton('127.0.0.1') + socket.inet_aton('127.0.0.2')"],
    );
    expect(refused).toEqual(Array(6).fill(unknown));
  });

  test("errors of datagrams are not kept, although resolvers ask for them", async () => {
    const program = `
import errno, os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(0, 11, 1)
print(s.getsockopt(0, 11))
s.connect(("127.0.0.1", 9))
s.send(b"x")
try: s.recv(1, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
except OSError as error: print(os.strerror(error.errno))`;
    expect((await ask(program))[0]).toBe("0");
  });

  test("memory policies are refused", async () => {
    const program = `
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
memory = mmap.mmap(-1, 4096)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
number = {"x86_64": 237, "aarch64": 235}[os.uname().machine]
print(libc.syscall(number, ctypes.c_void_p(at), 4096, 2, None, 0, 0), os.strerror(ctypes.get_errno()))`;
    expect(await ask(program)).toEqual([`-1 ${missing}`]);
  });

  test("everyday socket options still work", async () => {
    const usual = await options(
      ["tcp", 6, 1, "1"],
      ["tcp", 1, 2, "1"],
      ["tcp", 1, 9, "1"],
      ["udp", 1, 7, "65536"],
      ["udp", 1, 8, "65536"],
      ["udp6", 41, 26, "1"],
    );
    expect(usual).toEqual(Array(6).fill("set"));
  });

  test("the file API reveals nothing about the process that reads for it", async () => {
    const files = machine.files(user === "root" ? undefined : user);
    const read = async (path: string) => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of await files.read(path)) chunks.push(chunk);
      return Buffer.concat(chunks).toString();
    };
    for (const path of ["/proc/self/maps", "/proc/thread-self/maps", "/proc/self/task/../maps", "/proc/self/status"]) {
      await expect(read(path), path).rejects.toMatchObject({ code: "forbidden" });
    }
    expect(await read("/proc/meminfo")).toContain("MemTotal");
    expect(await read("/proc/1/cmdline")).toBeDefined();
  });
});
