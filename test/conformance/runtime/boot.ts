/** Booting and stopping machines: the state of a new one, how it ends, and which requests are refused. */

import { describe, expect, test } from "vitest";
import type { Limits } from "../../../src/core/ports/runtime.ts";
import { bootFor, expectReconciled, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { run, sh, start } from "./run.ts";

export function bootSuite(host: () => RuntimeHost): void {
  describe("booting", () => {
    provesNothingIsLeft(host);

    test("a machine runs a command from its image and is in the list", async () => {
      const machine = await bootFor(host());
      expect((await run(machine, ["echo", "hello"])).stdout).toBe("hello\n");
      expect(host().runtime.machine(machine.id)).toBe(machine);
      expect(host().runtime.machines()).toContain(machine);
      expect(machine.bootedAt).toBeLessThanOrEqual(Date.now());
      expect(machine.spec).toMatchObject({ id: machine.id, network: "allow-all", sudo: true });
    });

    test("a machine sees its own processes only, and its agent is the first of them", async () => {
      const machine = await bootFor(host());
      const { stdout } = await sh(machine, "echo $$; ls -d /proc/[0-9]* | wc -l");
      const [pid, processes] = stdout.trim().split("\n").map(Number);
      expect(pid).toBeLessThan(20);
      expect(processes).toBeLessThan(8);
    });

    test("a machine's files are invisible to other machines", async () => {
      const [one, other] = await Promise.all([bootFor(host()), bootFor(host())]);
      await sh(one, "echo mine > /var/tmp/mine");
      expect((await sh(other, "cat /var/tmp/mine")).status.code).not.toBe(0);
      expect((await sh(one, "cat /var/tmp/mine")).stdout).toBe("mine\n");
    });

    test("programs may gain privileges unless the machine was booted without", async () => {
      const without = await bootFor(host(), { sudo: false });
      const withSudo = await bootFor(host());
      const flag = "grep NoNewPrivs /proc/self/status | tr -dc 01";
      expect((await sh(without, flag)).stdout).toBe("1");
      expect((await sh(withSudo, flag)).stdout).toBe("0");
    });

    test("twenty machines boot at once, each with its own files and processes", async () => {
      const machines = await Promise.all(Array.from({ length: 20 }, () => bootFor(host())));
      const outputs = await Promise.all(machines.map((machine) => sh(machine, `echo ${machine.id} > /id; cat /id`)));
      expect(outputs.map((output) => output.stdout.trim())).toEqual(machines.map((machine) => machine.id));
    });
  });

  describe("stopping", () => {
    provesNothingIsLeft(host);

    test("a stop ends every process, settles `ended` and reports that it was requested", async () => {
      const machine = await bootFor(host());
      await sh(machine, "sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 &");
      const end = await machine.stop();
      expect(end).toMatchObject({ machineId: machine.id, cause: "asked" });
      expect(end.snapshot).toBeUndefined();
      expect(await machine.ended).toEqual(end);
      expect(host().runtime.machine(machine.id)).toBeUndefined();
      expect(host().runtime.machines()).not.toContain(machine);
    });

    test("stopping twice, at once or later, is one stop", async () => {
      const machine = await bootFor(host());
      const [one, other] = await Promise.all([machine.stop(), machine.stop({ snapshot: true })]);
      expect(other).toEqual(one);
      expect(await machine.stop()).toEqual(one);
    });

    test("a stopped machine refuses everything but reading its past", async () => {
      const machine = await bootFor(host());
      await sh(machine, "head -c 1000000 /dev/zero | sha256sum");
      const before = await machine.usage();
      const end = await machine.stop();
      const gone = { code: "gone" };
      await expect(run(machine, ["true"])).rejects.toMatchObject(gone);
      await expect(machine.snapshot()).rejects.toMatchObject(gone);
      await expect(machine.setNetwork("deny-all")).rejects.toMatchObject(gone);
      await expect(machine.connect(80)).rejects.toMatchObject(gone);
      await expect(machine.files().stat("/")).rejects.toMatchObject(gone);
      expect(await machine.usage()).toEqual(end.usage);
      expect(end.usage.cpuTime).toBeGreaterThanOrEqual(before.cpuTime);
    });

    test("running commands end with the machine: readers see the end, writers and waiters get an error", async () => {
      const machine = await bootFor(host());
      const command = await start(machine, ["sh", "-c", "echo before; exec sleep 1000"]);
      const read = (async () => {
        const seen: string[] = [];
        for await (const chunk of command.output()) seen.push(Buffer.from(chunk.data).toString());
        return seen.join("");
      })();
      const write = start(machine, ["sleep", "1000"], { stdin: true }).then((sleeper) =>
        sleeper.write(new Uint8Array(1 << 20)),
      );
      const refused = expect(write).rejects.toMatchObject({ code: "gone" });
      await sh(machine, "sleep 0.1");
      await machine.stop();
      expect(await read).toBe("before\n");
      await expect(command.exited).rejects.toMatchObject({ code: "gone" });
      await refused;
      expect(machine.processes()).toEqual([]);
    });

    test("a machine's leftovers are deleted by forgetting it, and only then", async () => {
      const machine = await bootFor(host());
      const { runtime } = host();
      const command = await start(machine, ["echo", "kept"]);
      await command.exited;
      await expect(runtime.forget(machine.id)).rejects.toMatchObject({ code: "conflict" });
      await machine.stop();
      expect(await collect(runtime.output(machine.id, command.id))).toBe("kept\n");
      await runtime.forget(machine.id);
      expect(() => runtime.output(machine.id, command.id)).toThrowError(expect.objectContaining({ code: "not-found" }));
      expect(await runtime.salvage(machine.id)).toBeUndefined();
      await runtime.forget(machine.id);
    });
  });

  describe("an invalid boot", () => {
    provesNothingIsLeft(host);

    test.each(["", "a b", "../up", "a/b", "ä", "x".repeat(65), "a\0b", "a\n"])("the id %j is refused", async (id) => {
      await expect(host().boot({ id })).rejects.toMatchObject({ code: "invalid" });
    });

    const malformed: Partial<Record<keyof Limits, number[]>> = {
      vcpus: [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e9],
      memory: [0, -5, 1000, 1.5e9 + 0.5, Number.NaN, 2 ** 60],
      pids: [0, 1, -1, 10.5, 2 ** 40],
      disk: [0, -1, 17, Number.NaN, 2 ** 60],
    };
    const cases = Object.entries(malformed).flatMap(([name, values]) => values.map((value) => [name, value] as const));
    test.each(cases)("a limit of %s to %d is refused", async (name, value) => {
      const failure = expect(host().boot({ limits: { [name]: value } })).rejects;
      await failure.toMatchObject({ code: "invalid", message: expect.stringContaining(name) });
    });

    test("a limit that does not exist is refused", async () => {
      const limits = { gpus: 4 } as Partial<Limits>;
      await expect(host().boot({ limits })).rejects.toMatchObject({ code: "invalid" });
    });

    test("an unknown image or snapshot is reported as missing", async () => {
      const missing = { code: "not-found", message: expect.stringContaining('"nosuch"') };
      await expect(host().boot({ root: { image: "nosuch" } })).rejects.toMatchObject(missing);
      await expect(host().boot({ root: { snapshot: "nosuch" } })).rejects.toMatchObject(missing);
      await expect(host().boot({ root: { snapshot: "../images/host" } })).rejects.toMatchObject({ code: "not-found" });
      await expect(host().boot({ root: { snapshot: "0".repeat(28) } })).rejects.toMatchObject({ code: "not-found" });
    });

    test("an id is used once, also while its machine boots and after it has stopped", async () => {
      const id = `once-${process.pid}`;
      const exists = { code: "exists" };
      const first = bootFor(host(), { id });
      await expect(host().boot({ id })).rejects.toMatchObject(exists);
      const machine = await first;
      await expect(host().boot({ id })).rejects.toMatchObject(exists);
      await machine.stop();
      await expect(host().boot({ id })).rejects.toMatchObject(exists);
    });

    test("a boot that fails leaves nothing behind", async () => {
      await expect(host().boot({ root: { image: "nosuch" } })).rejects.toThrow();
      await expect(host().boot({ limits: { pids: 1 } })).rejects.toThrow();
      await expectReconciled(host());
    });
  });
}

async function collect(output: AsyncIterable<{ data: Uint8Array }>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of output) parts.push(chunk.data);
  return Buffer.concat(parts).toString();
}
