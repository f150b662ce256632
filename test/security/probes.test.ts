/** What a sandbox must not be able to do: every probe of guest/test/probes/probe_*.c, as root inside and as the plain user. */

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { guestBinary } from "../runner/needs.ts";
import { exceptions, separate } from "./expected.ts";
import { install, nativeProgram, run, shell, users } from "./inside.ts";

const program = await nativeProgram("probe");
const names = execFileSync(program, ["list"], { encoding: "utf8" }).trim().split("\n");

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;
let probe: string;

beforeAll(async () => {
  host = await withRuntime(undo);
  machine = await host.boot();
  probe = await install(machine, "probe");
});

test("there are at least fifty probes, and every exception names an existing one", () => {
  expect(names.length).toBeGreaterThanOrEqual(50);
  expect([...Object.keys(exceptions), ...separate].filter((name) => !names.includes(name))).toEqual([]);
});

describe.each(users)("to %s inside", (user) => {
  const endings = new Map<string, string>();

  beforeAll(async () => {
    const { out } = await run(machine, user, [probe, "all"]);
    for (const line of out.split("\n")) {
      const [name = "", ending = ""] = line.split("\t");
      endings.set(name, ending);
    }
  });

  test.each(names.filter((name) => !separate.has(name)))("%s is closed", (name) => {
    const exception = exceptions[name];
    const applies = exception && (exception.user ?? user) === user;
    if (applies && exception.ending === "any") return;
    expect(endings.get(name)).toMatch(applies ? /^open/ : /^closed/);
  });

  test("the agent has survived all of it", async () => {
    expect((await run(machine, user, ["echo", "alive"])).out).toBe("alive\n");
  });

  test("an abstract socket of the host cannot be reached", async () => {
    const name = `sandkeep-probe-${process.pid}-${user}`;
    const server = createServer(greet).listen(`\0${name}`);
    await once(server, "listening");
    expect(spawnSync(program, ["abstract-socket", name], { encoding: "utf8" }).stdout).toMatch(/^open/);
    expect((await run(machine, user, [probe, "abstract-socket", name])).out).toMatch(/^closed/);
    server.close();
  });

  test.each(["deny-all", "allow-all"] as const)("no server of the host can be reached with %s", async (mode) => {
    const server = createServer(greet).listen(0, "0.0.0.0");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" ? address?.port : undefined;
    await machine.setNetwork(mode);
    for (const target of ["127.0.0.1", "0.0.0.0", ...hostAddresses()])
      expect((await run(machine, user, [probe, "connect", `${target}:${port}`])).out).toMatch(/^closed/);
    server.close();
  });

  test("no process of the host has a pid inside", async () => {
    const { code } = await run(machine, user, ["sh", "-c", `kill -0 ${process.pid}`]);
    expect(code).not.toBe(0);
    expect(await shell(machine, user, "ls -d /proc/[0-9]* | wc -l")).toMatch(/^[1-9]\n$/);
  });

  test("a command cannot be inspected before its program runs: until then it is a copy of the agent", async () => {
    const watcher = run(machine, user, [probe, "newborn-ptrace", "200"]);
    let watching = true;
    void watcher.finally(() => {
      watching = false;
    });
    while (watching) await run(machine, user, ["true"]);
    expect((await watcher).out).toMatch(/^closed/);
  });

  // exec of /proc/self/exe is resolved in a process that still runs the agent's own binary.
  test("the agent's program cannot be overwritten through /proc/self/exe", async () => {
    const before = sha256(guestBinary);
    const script = "for fd in /proc/[0-9]*/exe; do (echo overwritten > $fd) 2>/dev/null; done; true";
    const attack = run(machine, user, ["/proc/self/exe"], { timeLimit: 2000 }).catch(() => undefined);
    await run(machine, user, ["sh", "-c", script]);
    await attack;
    expect(sha256(guestBinary)).toBe(before);
    expect((await run(machine, user, ["echo", "alive"])).out).toBe("alive\n");
  });
});

describe("what must work", () => {
  test("the plain user becomes root inside with sudo", async () => {
    expect(await shell(machine, "1000", "sudo -n id -u")).toBe("0\n");
  });

  test("a machine without sudo gains no privilege from setuid files", async () => {
    const plain = await host.boot({ sudo: false });
    expect((await run(plain, "1000", ["sudo", "-n", "id", "-u"])).code).not.toBe(0);
    expect(await shell(plain, "1000", "grep NoNewPrivs /proc/self/status")).toBe("NoNewPrivs:\t1\n");
    await plain.stop();
  });

  test("a debugger may inspect a program of the same user", async () => {
    expect(await shell(machine, "1000", "sleep 60 & head -c 1 /proc/$!/maps | wc -c; kill $!")).toBe("1\n");
  });
});

function greet(socket: Socket): void {
  // The probe disconnects without reading the answer.
  socket.on("error", () => socket.destroy());
  socket.end("x");
}

function hostAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((addresses) =>
    (addresses ?? []).filter((address) => address.family === "IPv4").map((address) => address.address),
  );
}

function sha256(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}
