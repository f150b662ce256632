/** Opening a runtime again: it finds machines, their commands and their output unchanged. */

import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Machine } from "../../../src/core/ports/runtime.ts";
import { bootFor, expectReconciled, firstProcessOf, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { gather, run, sh, start, until } from "./run.ts";

export function adoptSuite(host: () => RuntimeHost): void {
  describe("after the runtime was opened again", () => {
    provesNothingIsLeft(host);

    test("every machine exists with its spec, and works", async () => {
      const limits = { vcpus: 1, memory: 200 << 20, pids: 99, disk: 100 << 20 };
      const machines = await Promise.all([
        bootFor(host(), { limits, network: "deny-all" }),
        bootFor(host()),
        bootFor(host()),
      ]);
      await Promise.all(machines.map((machine) => sh(machine, `echo ${machine.id} > /id`)));
      const before = await Promise.all(machines.map((machine) => machine.usage()));
      await host().reopen();
      for (const [n, old] of machines.entries()) {
        const machine = again(host(), old);
        expect(machine).not.toBe(old);
        expect(machine.spec).toEqual(old.spec);
        expect(machine.bootedAt).toBe(old.bootedAt);
        expect((await sh(machine, "cat /id")).stdout).toBe(`${old.id}\n`);
        expect((await machine.usage()).cpuTime).toBeGreaterThanOrEqual(before[n]?.cpuTime ?? 0);
      }
      for (const { id } of machines) expect(host().runtime.end(id)).toBeUndefined();
      await expectReconciled(host());
    });

    test("running commands still exist, take input and signals, and their output goes on without a gap", async () => {
      const machine = await bootFor(host());
      const counter = await start(machine, ["sh", "-c", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.002; done"]);
      const cat = await start(machine, ["cat"], { stdin: true });
      const shell = await start(machine, ["sh", "-i"], { pty: { rows: 20, columns: 80 }, env: { PS1: "> " } });
      await cat.write(Buffer.from("before "));
      await until(counter.output(), "\n50\n");
      await host().reopen();
      const found = again(host(), machine);
      expect(
        found
          .processes()
          .map((command) => command.id)
          .sort(),
      ).toEqual([counter.id, cat.id, shell.id].sort());
      expect(found.process(counter.id)).toMatchObject({ pid: counter.pid });
      const [counting, reading, typing] = [counter, cat, shell].map((old) => found.process(old.id));
      if (!counting || !reading || !typing) throw new Error("A command was not found again");
      await until(counting.output(), "\n150\n");
      await counting.signal(15);
      expect(await counting.exited).toMatchObject({ code: 143 });
      const numbers = (await gather(counting.output())).stdout.trim().split("\n").map(Number);
      expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, n) => n));
      await reading.write(Buffer.from("after"));
      await reading.closeStdin();
      expect((await gather(reading.output())).stdout).toBe("before after");
      await typing.resize({ rows: 30, columns: 90 });
      await typing.write(Buffer.from("stty size; exit 3\n"));
      expect(await typing.exited).toMatchObject({ code: 3 });
      expect((await gather(typing.output())).pty).toContain("30 90");
    });

    test("a command that ended in between has its status and its whole output", async () => {
      const machine = await bootFor(host());
      const command = await start(machine, [
        "sh",
        "-c",
        "echo a; while [ ! -s /go ]; do sleep 0.02; done; echo b >&2; exit 9",
      ]);
      await until(command.output(), "a");
      await sh(machine, "touch /go");
      const go = `/proc/${firstProcessOf(host(), machine.id)}/root/go`;
      // The runtime has been closed then, and the next one is not open yet.
      const closed = command.exited.finally(() => writeFileSync(go, "now", { flag: "r+" }));
      const pending = expect(closed).rejects.toMatchObject({ code: "gone" });
      await host().reopen();
      await pending;
      const found = again(host(), machine).process(command.id);
      expect(await found?.exited).toMatchObject({ code: 9 });
      expect(await gather(host().runtime.output(machine.id, command.id))).toMatchObject({
        stdout: "a\n",
        stderr: "b\n",
      });
      await host().reopen();
      expect(again(host(), machine).process(command.id)?.exit).toMatchObject({ code: 9, outputEnd: 4 });
    });

    test("readers of a command's output get an error, not the end of the command", async () => {
      const machine = await bootFor(host());
      const command = await start(machine, ["sleep", "1000"]);
      const reader = expect(gather(command.output())).rejects.toMatchObject({ code: "gone" });
      await host().reopen();
      await reader;
      expect(again(host(), machine).process(command.id)?.exit).toBeUndefined();
    });

    test("a stopped machine stays stopped, and its id and output stay known", async () => {
      const machine = await bootFor(host());
      await run(machine, ["echo", "said"], { id: "speaker" });
      const end = await machine.stop();
      await host().reopen();
      expect(host().runtime.machine(machine.id)).toBeUndefined();
      expect(host().runtime.end(machine.id)).toEqual(end);
      expect((await gather(host().runtime.output(machine.id, "speaker"))).stdout).toBe("said\n");
      await expect(host().boot({ id: machine.id })).rejects.toMatchObject({ code: "exists" });
    });

    test("a command's id cannot be used twice", async () => {
      const machine = await bootFor(host());
      await run(machine, ["true"], { id: "first" });
      await host().reopen();
      await expect(run(again(host(), machine), ["true"], { id: "first" })).rejects.toMatchObject({ code: "exists" });
    });

    test("time limits still hold", async () => {
      const machine = await bootFor(host());
      const command = await start(machine, ["sleep", "1000"], { timeLimit: 1500 });
      await host().reopen();
      expect(await again(host(), machine).process(command.id)?.exited).toMatchObject({ timedOut: true, code: 137 });
    });

    test("machines can be stopped with a snapshot and booted from it", async () => {
      const machine = await bootFor(host());
      await sh(machine, "echo kept > /file");
      await host().reopen();
      const { snapshot } = await again(host(), machine).stop({ snapshot: true });
      const copy = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
      expect((await sh(copy, "cat /file")).stdout).toBe("kept\n");
    });

    test("a closed runtime refuses work with a clear error", async () => {
      const machine = await bootFor(host());
      const { runtime } = host();
      await host().reopen();
      await expect(runtime.reconcile()).rejects.toMatchObject({ code: "unavailable" });
      await expect(run(machine, ["true"])).rejects.toMatchObject({ code: "gone" });
    });
  });
}

function again(host: RuntimeHost, old: Machine): Machine {
  const machine = host.runtime.machine(old.id);
  if (!machine) throw new Error(`Machine "${old.id}" was not found again`);
  return machine;
}
