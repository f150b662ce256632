/**
 * Filters of system calls: programs can still confine themselves, and no sandbox uses up the host's memory for compiled
 * filters (net.core.bpf_jit_limit).
 */

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine, Process } from "../../src/core/ports/runtime.ts";
import { withRuntime } from "../harness/machine.ts";
import { begin, firstLine, run, shell, type User, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let machine: Machine;

beforeAll(async () => {
  const host = await withRuntime(undo);
  machine = await host.boot({ network: "deny-all" });
});

/** most filters of one sandbox, as guest/confinement/filters.h has it */
const most = 128;

/** the longest filters that the kernel takes, of instructions that compile to much code; install() gives an errno */
const python = `
import ctypes, os, signal, struct, sys, threading, time, socket
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
def program(length):
    code = [struct.pack("HBBI", 5, 0, 0, length - 2)] + [struct.pack("HBBI", 0x34, 0, 0, 123456789)] * (length - 2) + [struct.pack("HBBI", 6, 0, 0, 0x7fff0000)]
    text = ctypes.create_string_buffer(b"".join(code))
    return text, ctypes.create_string_buffer(struct.pack("HxxxxxxQ", length, ctypes.addressof(text)))
longest, short = program(4096), program(8)
libc.prctl(38, 1, 0, 0, 0)
def install(of=longest, flags=0):
    return 0 if libc.syscall(number, 1, flags, of[1]) == 0 else ctypes.get_errno()
def install_many(count):
    done, error = 0, 0
    while done < count and not error:
        error = install()
        done += not error
    return done, error
def child(work):
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, repr(work()).encode())
        os.close(writes)
        time.sleep(600)
    os.close(writes)
    return eval(os.read(reads, 4096))
`;
const ask = async (user: User, program: string) =>
  (
    await shell(machine, user, `cat > /tmp/f-$$.py <<'END'\n${python}${program}\nEND\nexec python3 /tmp/f-$$.py`)
  ).trim();
/** a program that keeps running, and its first line of output */
const keepAsking = async (user: User, program: string) => {
  const going = await begin(machine, user, [
    "python3",
    "-c",
    `${python}${program}\nsys.stdout.flush(); time.sleep(600)`,
  ]);
  return { going, said: (await firstLine(going)).trim() };
};

/** bytes of compiled filters on the whole host, from the kernel's own listing */
const compiled = () =>
  readFileSync("/proc/vmallocinfo", "utf8")
    .split("\n")
    .filter((line) => line.includes("bpf_prog_pack") || line.includes("bpf_jit"))
    .reduce((sum, line) => sum + Number(line.split(/\s+/)[1]), 0);

/** ends the program and everything that it has left behind */
async function end(going: Process): Promise<void> {
  // All at once: processes that fork would escape if they were killed one by one.
  await run(machine, "root", ["sh", "-c", "kill -9 -1"]);
  await going.exited;
}

describe.each(users)("of %s", (user) => {
  test("processes have no more filters than a sandbox may, and the host's memory for them hardly changes", async () => {
    const before = compiled();
    const many = "print(sum(child(lambda: install_many(7))[0] for _ in range(60)), child(install))";
    const { going, said } = await keepAsking(user, many);
    expect(said).toBe(`${most} 12`);
    expect(compiled() - before).toBeLessThan(32 << 20);
    await end(going);
  });

  test("threads have no more either", async () => {
    const threads = `
done = []
def one(): done.append(install_many(7)[0]); time.sleep(600)
for _ in range(60): threading.Thread(target=one, daemon=True).start()
while len(done) < 60: time.sleep(0.01)
print(sum(done))`;
    const { going, said } = await keepAsking(user, threads);
    expect(said).toBe(String(most));
    await end(going);
  });

  test("filters inherited from processes that have ended still count", async () => {
    const heirs = `
def heir():
    reads, writes = os.pipe()
    if os.fork() == 0:
        done = install_many(7)[0]
        if os.fork() == 0:
            os.write(writes, b"x")
            time.sleep(600)
        os._exit(done)
    os.read(reads, 1)
    return os.waitstatus_to_exitcode(os.wait()[1])
print(sum(heir() for _ in range(60)))`;
    const { going, said } = await keepAsking(user, heirs);
    expect(said).toBe(String(most));
    await end(going);
  });

  test("processes that pass their filters on by forking are still counted", async () => {
    const runners = `
def run():
    if os.fork() == 0:
        done = install_many(7)[0]
        os.write(writes, bytes([done]))
        end = time.time() + 50
        while time.time() < end:
            if os.fork(): os._exit(0)
        os._exit(0)
reads, writes = os.pipe()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(40): run()
print(sum(os.read(reads, 1)[0] for _ in range(40)))`;
    const { going, said } = await keepAsking(user, runners);
    expect(Number(said)).toBeLessThanOrEqual(most);
    await end(going);
  });

  test("a filter for each of many processes and all of its threads works again and again, as browsers do it", async () => {
    const browser = `
def page():
    for _ in range(4): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return install(short, 1), install(short, 1)
print({child(page) for _ in range(40)})
sys.stdout.flush()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
try:
    while True: os.wait()
except ChildProcessError: pass`;
    for (let round = 0; round < 5; round++) {
      const going = await begin(machine, user, ["setsid", "-w", "python3", "-c", `${python}${browser}`]);
      expect(await firstLine(going)).toBe("{(0, 0)}\n");
      await going.exited;
    }
  });

  test("a long list of groups hides no filter", async () => {
    const many = `
if os.getuid() == 0: os.setgroups(range(1500))
print(sum(child(lambda: install_many(7))[0] for _ in range(30)))`;
    const { going, said } = await keepAsking(user, many);
    expect(said).toBe(String(most));
    await end(going);
  });

  test("libraries can test for the kernel's features without being counted", async () => {
    const probe =
      "print({(libc.syscall(number, 1, flag, None), ctypes.get_errno()) for flag in [0, 1, 2] * 100}, install())";
    expect(await ask(user, probe)).toBe("{(-1, 14)} 0");
  });

  test("prctl() is counted, too", async () => {
    const both = `
def old(): return [libc.prctl(22, 2, longest[1], 0, 0) for _ in range(7)].count(0)
print(sum(child(old) for _ in range(60)))`;
    const { going, said } = await keepAsking(user, both);
    expect(said).toBe(String(most));
    await end(going);
  });

  test("a socket takes no filter", async () => {
    const attach = `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def attach(option):
    return ctypes.get_errno() if libc.setsockopt(s.fileno(), 1, option, short[1], 16) else 0
print(attach(26), attach(51))`;
    expect(await ask(user, attach)).toBe("92 92");
  });
});
