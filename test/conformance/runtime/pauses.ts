/** Pauses: a paused machine keeps its memory and uses no processor, and everything goes on where it was. */

import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { eventually } from "../../harness/harness.ts";
import { bootFor, firstProcessOf, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { gather, sh, start, until } from "./run.ts";

/** of a command that a pause interrupts, in ms: the steps before and after the pause take less of it on a busy host, too */
const timeLimit = 15_000;

/** counts in memory, and says the number at which it is for each line that it reads */
const counter = `
import sys, threading, os
n = 0
def count():
    global n
    while True: n += 1
threading.Thread(target=count, daemon=True).start()
print("up", os.getpid(), flush=True)
for line in sys.stdin: print("at", n, flush=True)`;

export function pausesSuite(host: () => RuntimeHost): void {
  describe("a paused machine", () => {
    provesNothingIsLeft(host);

    test("stands still with its memory, ends what is open, and goes on with the same processes", async () => {
      const machine = await bootFor(host());
      const command = await start(machine, ["python3", "-u", "-c", counter], { stdin: true });
      const said = await until(command.output(), "up");
      const open = [
        gather(command.output()),
        machine.files().watch("/tmp").then(gathered),
        machine.files().write("/tmp/slow", never()),
      ].map((stream) => stream.catch((error: unknown) => error));
      const server = await start(machine, ["python3", "-u", "-m", "http.server", "8000"]);
      const socket = await eventually("a port", () => machine.connect(8000).catch(() => undefined));
      const closed = new Promise((resolve) => socket.once("close", resolve));
      expect(machine.pausing.aborted).toBe(false);
      await sh(machine, "echo before > /data");
      const limited = await start(machine, ["sleep", "1000"], { timeLimit });

      const snapshot = await machine.pause();
      const pausedAt = Date.now();
      expect([machine.isPaused, machine.pausing.aborted, command.exit]).toEqual([true, true, undefined]);
      for (const error of await Promise.all(open)) expect(error).toMatchObject(paused);
      await closed;
      await expect(sh(machine, "true")).rejects.toMatchObject(paused);
      await expect(command.write(Buffer.from("\n"))).rejects.toMatchObject(paused);
      await expect(machine.files().stat("/")).rejects.toMatchObject(paused);
      await expect(machine.pause()).rejects.toMatchObject(paused);
      const { cpuTime, processes } = await machine.usage();
      // Another snapshot leaves it paused.
      const second = await machine.snapshot();
      expect(await machine.usage()).toMatchObject({ cpuTime, processes });

      const copy = await bootFor(host(), { root: { snapshot: snapshot.id } });
      expect((await sh(copy, "cat /data")).stdout).toBe("before\n");
      await host().runtime.snapshots.delete(second.id);

      // Longer than the time limit of a command, which does not count it.
      await delay(Math.max(limited.startedAt + timeLimit + 200, pausedAt + 3500) - Date.now());
      await Promise.all([machine.resume(), machine.resume()]);
      await machine.resume();
      expect([machine.isPaused, machine.pausing.aborted, limited.exit]).toEqual([false, false, undefined]);
      await command.write(Buffer.from("\n"));
      const output = await until(command.output(), "at");
      expect(output.startsWith(said)).toBe(true);
      expect(machine.process(command.id)).toMatchObject({ pid: command.pid, exit: undefined });
      const again = await machine.connect(8000);
      again.destroy();
      expect((await sh(machine, "cat /data")).stdout).toBe("before\n");
      await server.signal(9);
      expect(await limited.exited).toMatchObject({ timedOut: true });
      await command.closeStdin();
      expect(await command.exited).toMatchObject({ code: 0 });
    });

    test("is found paused by the next runtime, and goes on there; one that dies is found out", async () => {
      const [machine, dying] = await Promise.all([bootFor(host()), bootFor(host())]);
      const command = await start(machine, ["python3", "-u", "-c", counter], { stdin: true });
      await until(command.output(), "up");
      await sh(dying, "echo kept > /data");
      await Promise.all([machine.pause(), dying.pause()]);
      await host().reopen();
      const [found, lost] = [host().runtime.machine(machine.id), host().runtime.machine(dying.id)];
      if (!found || !lost) throw new Error("A paused machine was not found again");
      expect([found.isPaused, lost.isPaused]).toEqual([true, true]);
      await expect(sh(found, "true")).rejects.toMatchObject(paused);
      await expect(gather(host().runtime.output(machine.id, command.id))).rejects.toMatchObject(paused);
      await found.setNetwork("deny-all");
      await found.resume();
      const process = found.process(command.id);
      expect(process).toMatchObject({ pid: command.pid, exit: undefined });
      await process?.write(Buffer.from("\n"));
      await until(host().runtime.output(machine.id, command.id), "at");

      killFirst(host(), dying.id);
      expect(await lost.ended).toMatchObject({ cause: "crash" });
      const kept = await host().runtime.salvage(dying.id);
      const copy = await bootFor(host(), { root: { snapshot: kept?.id ?? "" } });
      expect((await sh(copy, "cat /data")).stdout).toBe("kept\n");
    });

    test("is stopped like any other, with its files", async () => {
      const machine = await bootFor(host());
      await sh(machine, "echo kept > /data; (sleep 1000 &)");
      await machine.pause();
      const { snapshot } = await machine.stop({ snapshot: true });
      const copy = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
      expect((await sh(copy, "cat /data")).stdout).toBe("kept\n");
    });
  });
}

const paused = { code: "conflict", about: { kind: "session", state: "paused" } };

async function* never(): AsyncGenerator<Uint8Array> {
  yield Buffer.from("begun");
  await new Promise(() => undefined);
}

async function gathered<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** as the kernel does when the host has no memory left */
function killFirst(host: RuntimeHost, machineId: string): void {
  process.kill(firstProcessOf(host, machineId), "SIGKILL");
}
