/** Running commands: their environment, how they end, and which requests are refused before anything runs. */

import { beforeAll, describe, expect, test } from "vitest";
import type { ExecSpec, Machine } from "../../../src/core/ports/runtime.ts";
import { eventually } from "../../harness/harness.ts";
import { dismiss, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { commandId, gather, run, sh, start, until } from "./run.ts";

export function execSuite(host: () => RuntimeHost): void {
  describe("a command", () => {
    const machine = sharedMachine(host);

    test("gets its arguments as they are, without a shell", async () => {
      const words = ["$HOME", "a  b", "*", "", "`id`", "'", "ünï"];
      const { stdout, status } = await run(machine(), ["printf", "[%s]", ...words]);
      expect(stdout).toBe(words.map((word) => `[${word}]`).join(""));
      expect(status).toMatchObject({ code: 0, outOfMemory: false, timedOut: false });
    });

    test("starts in the user's home, or in the given directory", async () => {
      expect((await run(machine(), ["pwd"])).stdout).toBe("/root\n");
      expect((await run(machine(), ["pwd"], { cwd: "/usr/lib" })).stdout).toBe("/usr/lib\n");
    });

    test("has a small default environment, and the caller's on top", async () => {
      const env = (text: string) =>
        Object.fromEntries(
          text
            .trim()
            .split("\n")
            .map((line) => line.split(/=(.*)/s)),
        );
      const plain = env((await run(machine(), ["env"])).stdout);
      expect(plain).toMatchObject({ HOME: "/root", USER: "root" });
      expect(plain.PATH).toContain("/usr/bin");
      const given = { FOO: "a=b c", HOME: "/tmp", EMPTY: "" };
      expect(env((await run(machine(), ["env"], { env: given })).stdout)).toMatchObject(given);
      expect(Object.keys(plain).filter((name) => name.startsWith("npm_") || name === "VITEST")).toEqual([]);
    });

    test("is found through its own PATH", async () => {
      await sh(
        machine(),
        "mkdir -p /opt/mine; printf '#!/bin/sh\\necho found' > /opt/mine/tool; chmod 755 /opt/mine/tool",
      );
      expect((await run(machine(), ["tool"], { env: { PATH: "/usr/bin:/opt/mine" } })).stdout).toBe("found\n");
      await expect(run(machine(), ["tool"])).rejects.toMatchObject({ code: "invalid", about: { kind: "executable" } });
    });

    test("runs as the user, with the groups of /etc/group and those the caller adds", async () => {
      await addAnn(machine());
      const id = async (user: string, groups?: string[]) =>
        (await sh(machine(), "id -u; id -g; id -G; pwd; echo $HOME", { user, ...(groups && { groups }) })).stdout;
      expect(await id("ann")).toBe("1500\n1600\n1600 4300\n/home/ann\n/home/ann\n");
      expect(await id("1500")).toBe(await id("ann"));
      expect(await id("ann", ["crew", "4444"])).toContain("1600 4242 4300 4444");
      expect(await id("3333")).toMatch(/^3333\n/);
      // As images name their users: the group is the first one then.
      expect(await id("ann:crew")).toMatch(/^1500\n4242\n4242 4300\n/);
      expect(await id("1500:crew")).toBe(await id("ann:4242"));
      expect((await sh(machine(), "touch /root/x || echo refused", { user: "ann" })).stdout).toBe("refused\n");
    });

    test("reads end-of-file if the caller gives no input", async () => {
      expect((await run(machine(), ["cat"])).status.code).toBe(0);
    });

    test.each([0, 1, 77, 255])("exits with %d", async (code) => {
      expect((await sh(machine(), `exit ${code}`)).status).toMatchObject({ code, outOfMemory: false, timedOut: false });
    });

    test.each([
      ["TERM", 15],
      ["KILL", 9],
      ["SEGV", 11],
    ])("that died of SIG%s has 128 + %d as its code", async (name, signal) => {
      const { status } = await sh(machine(), `kill -${name} $$`);
      expect(status).toMatchObject({ code: 128 + signal, signal, outOfMemory: false, timedOut: false });
    });

    test("reports its processor time and memory", async () => {
      const { status } = await run(machine(), ["python3", "-c", "x = b'1' * (64 << 20); sum(range(10 ** 6))"]);
      expect(status.cpuTime).toBeGreaterThan(1);
      expect(status.peakMemory).toBeGreaterThan(64 << 20);
      expect(status.exitedAt).toBeLessThanOrEqual(Date.now());
    });

    test("is listed while it runs and known afterwards", async () => {
      const command = await start(machine(), ["sleep", "1000"]);
      expect(command.pid).toBeGreaterThan(1);
      expect(command.exit).toBeUndefined();
      expect(machine().processes()).toContain(command);
      expect(machine().process(command.id)).toBe(command);
      await command.signal(9);
      expect(await command.exited).toMatchObject({ code: 137, signal: 9 });
      expect(command.exit?.code).toBe(137);
      expect(machine().processes()).not.toContain(command);
      expect(machine().process(command.id)?.exit?.code).toBe(137);
    });

    test("a hundred run at once", async () => {
      const outputs = await Promise.all(Array.from({ length: 100 }, (_, n) => run(machine(), ["echo", `${n}`])));
      expect(outputs.map((output) => output.stdout)).toEqual(Array.from({ length: 100 }, (_, n) => `${n}\n`));
    });

    test("a child left in the background that holds its output does not delay its end", async () => {
      const command = await start(machine(), ["sh", "-c", "echo early; (sleep 1000; echo late) & exit 4"]);
      expect(await command.exited).toMatchObject({ code: 4, outputEnd: 6 });
      expect((await gather(command.output())).stdout).toBe("early\n");
      await sh(
        machine(),
        "for p in /proc/[0-9]*; do grep -q sleep $p/comm 2>/dev/null && kill -9 $(basename $p); done; true",
      );
    });

    test("orphaned children are reaped", async () => {
      await sh(machine(), "for n in 1 2 3 4 5; do (sleep 0.05 & ) ; done");
      await eventually("no zombies", async () => {
        const { stdout } = await sh(machine(), "grep -l 'State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l");
        return stdout.trim() === "0";
      });
    });
  });

  describe("signals and time limits", () => {
    const machine = sharedMachine(host);

    test("a signal reaches the whole process group", async () => {
      const command = await start(machine(), ["sh", "-c", "sleep 555 & sleep 555 & echo up; wait"]);
      await until(command.output(), "up");
      await command.signal(15);
      expect(await command.exited).toMatchObject({ code: 143, signal: 15 });
      await eventually("its children are gone", async () => (await running(machine(), "sleep 555")) === 0);
    });

    test("a command may handle a signal", async () => {
      const script = "trap 'echo caught; exit 5' USR1; echo up; while :; do sleep 0.02; done";
      const command = await start(machine(), ["sh", "-c", script]);
      await until(command.output(), "up");
      await command.signal(10);
      expect(await command.exited).toMatchObject({ code: 5 });
      expect((await gather(command.output())).stdout).toContain("caught");
    });

    test("a command that has ended cannot be signalled", async () => {
      const command = await start(machine(), ["true"]);
      await command.exited;
      await expect(command.signal(15)).rejects.toMatchObject({ code: "gone" });
    });

    test.each([-1, 1.5, 65, 1000, 2 ** 40, Number.NaN])("signal %d does not exist", async (signal) => {
      const command = await start(machine(), ["sleep", "1000"]);
      await expect(command.signal(signal)).rejects.toMatchObject({ code: "invalid" });
      await command.signal(9);
    });

    test("a command that exceeds its time limit is killed with its group, and its status says so", async () => {
      const command = await start(machine(), ["sh", "-c", "sleep 556 & sleep 556; echo never"], { timeLimit: 100 });
      expect(await command.exited).toMatchObject({ code: 137, signal: 9, timedOut: true, outOfMemory: false });
      expect((await gather(command.output())).stdout).toBe("");
      await eventually("its children are gone", async () => (await running(machine(), "sleep 556")) === 0);
    });

    test("a command that ends in time is not timed out", async () => {
      expect((await run(machine(), ["true"], { timeLimit: 60_000 })).status).toMatchObject({
        code: 0,
        timedOut: false,
      });
    });
  });

  describe("an invalid command", () => {
    const machine = sharedMachine(host);

    const refusals: [what: string, spec: Partial<ExecSpec>, kind: string][] = [
      ["a program that is nowhere", { argv: ["nosuchprogram"] }, "executable"],
      ["a path that leads nowhere", { argv: ["/no/such/program"] }, "executable"],
      ["a file that is not executable", { argv: ["/etc/passwd"] }, "executable"],
      ["a directory", { argv: ["/usr"] }, "executable"],
      ["a path through a file", { argv: ["/etc/passwd/x"] }, "executable"],
      ["a script whose interpreter is missing", { argv: ["/opt/broken"] }, "executable"],
      ["a directory that is missing", { cwd: "/no/such" }, "directory"],
      ["a working directory that is a file", { cwd: "/etc/passwd" }, "directory"],
      ["a working directory that is relative", { cwd: "tmp" }, "directory"],
      ["a working directory closed to the user", { cwd: "/root/closed", user: "nobody" }, "directory"],
      ["a user who is unknown", { user: "nosuchuser" }, "user"],
      ["a uid outside of the sandbox", { user: "70000" }, "user"],
      ["a user with a group that is unknown", { user: "root:nosuchgroup" }, "user"],
      ["a user with a gid outside of the sandbox", { user: "root:70000" }, "user"],
      ["a group that is unknown", { groups: ["nosuchgroup"] }, "user"],
      ["a gid outside of the sandbox", { groups: ["70000"] }, "user"],
      [
        "more groups than a process may have here",
        { groups: Array.from({ length: 100 }, (_, n) => `${100 + n}`) },
        "user",
      ],
    ];

    test.each(refusals)("%s", async (_what, spec, kind) => {
      await sh(
        machine(),
        "mkdir -p -m 700 /root/closed /opt; printf '#!/no/such' > /opt/broken; chmod 755 /opt/broken",
      );
      const before = machine().processes().length;
      const id = commandId();
      const failure = expect(machine().exec({ id, argv: ["touch", "/root/ran"], ...spec })).rejects;
      await failure.toMatchObject({
        code: "invalid",
        about: { kind },
        message: expect.stringMatching(/^Cannot run ".+": .+[^.]$/),
      });
      expect(machine().processes()).toHaveLength(before);
      expect(machine().process(id)).toBeUndefined();
      expect((await sh(machine(), "test -e /root/ran")).status.code).toBe(1);
      // the failed attempt did not use up the id
      expect((await run(machine(), ["true"], { id })).status.code).toBe(0);
    });

    const malformed: [what: string, spec: Partial<ExecSpec>][] = [
      ["no program", { argv: [] }],
      ["an empty program", { argv: [""] }],
      ["an empty id", { id: "" }],
      ["an id that is a path", { id: "../x" }],
      ["an id that is too long", { id: "x".repeat(65) }],
      ["a NUL in an argument", { argv: ["echo", "a\0b"] }],
      ["a NUL in the user", { user: "ro\0ot" }],
      ["a NUL in the working directory", { cwd: "/\0" }],
      ["a variable without a name", { env: { "": "x" } }],
      ["a variable with = in its name", { env: { "A=B": "x" } }],
      ["a NUL in a variable", { env: { A: "\0" } }],
      ["a terminal of no sensible size", { pty: { rows: -1, columns: 80 } }],
      ["a terminal of half a row", { pty: { rows: 0.5, columns: 80 } }],
      ["a time limit of nothing", { timeLimit: 0 }],
      ["a time limit that is no number", { timeLimit: Number.NaN }],
      ["an output limit below nothing", { outputLimit: -1 }],
      ["an output limit that is no number", { outputLimit: Number.NaN }],
      ["half a byte of output", { outputLimit: 0.5 }],
      ["more arguments than a frame holds", { argv: ["echo", ...Array.from({ length: 70_000 }, () => "")] }],
      ["a megabyte of arguments", { argv: ["echo", ...Array.from({ length: 100 }, () => "x".repeat(10_000))] }],
      [
        "a megabyte of arguments in other letters",
        { argv: ["echo", ...Array.from({ length: 40 }, () => "語".repeat(10_000))] },
      ],
      ["one argument longer than the kernel takes", { argv: ["echo", "x".repeat(200_000)] }],
    ];

    test.each(malformed)("%s is invalid", async (_what, spec) => {
      const failure = expect(start(machine(), ["true"], spec)).rejects;
      await failure.toMatchObject({ code: "invalid", message: expect.stringMatching(/^Cannot run "/) });
      expect((await run(machine(), ["true"])).status.code).toBe(0);
    });

    test("an id that was used before", async () => {
      const id = commandId();
      await run(machine(), ["true"], { id });
      await expect(run(machine(), ["true"], { id })).rejects.toMatchObject({ code: "exists" });
      const twins = await Promise.allSettled(["a", "b"].map((word) => run(machine(), ["echo", word], { id: "twin" })));
      expect(twins.map((twin) => twin.status).sort()).toEqual(["fulfilled", "rejected"]);
    });
  });
}

/** one machine for a group of tests that do not change it */
export function sharedMachine(host: () => RuntimeHost): () => Machine {
  let machine: Machine | undefined;
  provesNothingIsLeft(host);
  beforeAll(async () => {
    const booted = await host().boot();
    machine = booted;
    return () => dismiss(host(), booted.id);
  });
  return () => {
    if (!machine) throw new Error("The machine of these tests did not boot");
    return machine;
  };
}

async function addAnn(machine: Machine): Promise<void> {
  await sh(
    machine,
    `grep -q ^ann: /etc/passwd || {
       echo 'ann:x:1500:1600::/home/ann:/bin/sh' >> /etc/passwd
       printf 'anns:x:1600:\\ncrew:x:4242:\\nclub:x:4300:bob,ann\\n' >> /etc/group
       mkdir -p /home/ann; chown 1500:1600 /home/ann
     }`,
  );
}

/** the number of processes with this command line */
async function running(machine: Machine, commandLine: string): Promise<number> {
  const script = `for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done`;
  const { stdout } = await sh(machine, script);
  return stdout.split("\n").filter((line) => line.trim() === commandLine).length;
}
