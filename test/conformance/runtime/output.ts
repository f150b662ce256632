/** Reading the output of commands: from any offset, by several readers, while they run, afterwards, within limits. */

import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { OutputChunk } from "../../../src/core/ports/runtime.ts";
import { sharedMachine } from "./exec.ts";
import { bootFor, type RuntimeHost } from "./host.ts";
import { gather, python, run, sh, start, until } from "./run.ts";

export function outputSuite(host: () => RuntimeHost): void {
  describe("output", () => {
    const machine = sharedMachine(host);

    test("keeps the order of each stream, and its offsets count both streams", async () => {
      const script = "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d\\n' % n)";
      const command = await start(machine(), ["python3", "-c", script]);
      const { chunks, stdout, stderr, length } = await gather(command.output());
      const numbers = (text: string) => text.trim().split("\n").map(Number);
      expect(numbers(stdout)).toEqual(Array.from({ length: 1000 }, (_, n) => 2 * n));
      expect(numbers(stderr)).toEqual(Array.from({ length: 1000 }, (_, n) => 2 * n + 1));
      expectGapless(chunks);
      expect((await command.exited).outputEnd).toBe(length);
    });

    test("is binary: every byte value is kept", async () => {
      const command = await start(machine(), ["python3", "-c", "import os; os.write(1, bytes(range(256)) * 1000)"]);
      const { chunks } = await gather(command.output());
      const expected = Buffer.concat(
        Array.from({ length: 1000 }, () => Buffer.from(Uint8Array.from({ length: 256 }, (_, n) => n))),
      );
      expect(Buffer.concat(chunks.map((chunk) => chunk.data)).equals(expected)).toBe(true);
    });

    test("can be read by several readers at once, each from its own offset", async () => {
      const script =
        "i=0; while [ $i -lt 300 ]; do echo line-$i; i=$((i+1)); [ $((i % 50)) = 0 ] && sleep 0.02; done; exit 0";
      const command = await start(machine(), ["sh", "-c", script]);
      const offsets = [0, 1, 7, 100, 1024, 2000];
      const readers = await Promise.all(offsets.map((from) => gather(command.output({ from }))));
      const whole = readers[0]?.stdout ?? "";
      expect(whole.split("\n")).toHaveLength(301);
      expect(readers.map((reader) => reader.stdout)).toEqual(offsets.map((from) => whole.slice(from)));
      for (const [n, reader] of readers.entries()) expect(reader.chunks[0]?.offset).toBe(offsets[n]);
    });

    test("can be read from inside a large record, at its end and past it", async () => {
      const command = await start(machine(), ["python3", "-c", "import os; os.write(1, b'a' * 65536 + b'b' * 65536)"]);
      await command.exited;
      expect((await gather(command.output({ from: 65_530 }))).stdout).toBe(`aaaaaa${"b".repeat(65_536)}`);
      expect((await gather(command.output({ from: 131_071 }))).stdout).toBe("b");
      expect(await gather(command.output({ from: 131_072 }))).toMatchObject({ length: 0, dropped: 0 });
      expect(await gather(command.output({ from: 999_999 }))).toMatchObject({ length: 0, dropped: 0 });
    });

    test.each([-1, 0.5, Number.NaN])("cannot be read from offset %d", async (from) => {
      const command = await start(machine(), ["true"]);
      await command.exited;
      await expect(gather(command.output({ from }))).rejects.toMatchObject({ code: "invalid" });
    });

    test("without following ends with the output so far", async () => {
      const command = await start(machine(), ["sh", "-c", "echo now; exec sleep 1000"]);
      await until(command.output(), "now");
      expect((await gather(command.output({ follow: false }))).stdout).toBe("now\n");
      await command.signal(9);
    });

    test("a reader that follows gives up when its signal aborts, and only that reader", async () => {
      const command = await start(machine(), [
        "sh",
        "-c",
        "echo one; while [ ! -e /more ]; do sleep 0.02; done; echo two",
      ]);
      const controller = new AbortController();
      const seen: string[] = [];
      const patient = gather(command.output());
      const impatient = (async () => {
        for await (const chunk of command.output({ signal: controller.signal })) {
          seen.push(Buffer.from(chunk.data).toString());
          controller.abort();
        }
      })();
      await expect(impatient).rejects.toMatchObject({ name: "AbortError" });
      expect(seen).toEqual(["one\n"]);
      await sh(machine(), "touch /more");
      expect((await patient).stdout).toBe("one\ntwo\n");
    });

    test("of an unknown command is reported as missing", () => {
      const missing = expect.objectContaining({ code: "not-found" });
      expect(() => host().runtime.output(machine().id, "nosuch")).toThrowError(missing);
      expect(() => host().runtime.output(machine().id, "../machine")).toThrowError(missing);
      expect(() => host().runtime.output("nosuch", "nosuch")).toThrowError(missing);
    });

    test("that a process left behind prints after the command has ended is not part of it", async () => {
      const command = await start(machine(), [
        "sh",
        "-c",
        "echo mine; (while [ ! -e /late ]; do sleep 0.02; done; echo other) & exit 0",
      ]);
      await command.exited;
      await sh(machine(), "touch /late; sleep 0.1");
      expect((await gather(command.output())).stdout).toBe("mine\n");
    });
  });

  describe("output past its bound", () => {
    const machine = sharedMachine(host);
    const bound = 1 << 20;
    const total = 20 << 20;
    const print = [
      "python3",
      "-c",
      `import os\nfor n in range(${total >> 16}): os.write(1, b'%06d' % n + b'x' * 65530)`,
    ];

    test("loses the oldest bytes, and the reader learns how many", async () => {
      const command = await start(machine(), print, { outputLimit: bound });
      expect((await command.exited).outputEnd).toBe(total);
      const { chunks, length, dropped } = await gather(command.output());
      expect(length + dropped).toBe(total);
      expect(length).toBeLessThanOrEqual(bound);
      expect(length).toBeGreaterThan(bound / 2);
      expect(chunks[0]).toMatchObject({ offset: dropped, dropped });
      expectGapless(chunks);
      expect(
        Buffer.from(chunks.at(-1)?.data ?? [])
          .subarray(0, 6)
          .toString(),
      ).toBe(`${total / 65_536 - 1}`.padStart(6, "0"));
    });

    test("is complete from a kept offset, and from a lost one only the lost part is missing", async () => {
      const command = await start(machine(), print, { outputLimit: bound });
      await command.exited;
      expect(await gather(command.output({ from: total - 1000 }))).toMatchObject({ length: 1000, dropped: 0 });
      const from = 3 << 20;
      const { length, dropped } = await gather(command.output({ from }));
      expect(length + dropped).toBe(total - from);
    });

    const lines = ["sh", "-c", "seq 1 300000 | while read n; do echo $n; done"];
    test.each([
      ["a program", print, {}],
      ["a program on a terminal", print, { pty: { rows: 24, columns: 80 } }],
      ["a program that prints in small pieces", lines, {}],
    ])("a slow reader makes %s wait, and misses nothing", async (_, argv, spec) => {
      const command = await start(machine(), argv, { outputLimit: bound, ...spec });
      const chunks: OutputChunk[] = [];
      for await (const chunk of command.output()) {
        chunks.push(chunk);
        if (chunks.length < 10) await setTimeout(50);
        if (chunks.length === 10) expect(command.exit).toBeUndefined();
      }
      expect(chunks.filter(({ dropped }) => dropped)).toEqual([]);
      expect(chunks.reduce((sum, { data }) => sum + data.length, 0)).toBe((await command.exited).outputEnd);
      expectGapless(chunks);
    });

    test("several readers of a command that prints a lot each get every byte", async () => {
      const command = await start(machine(), print, { outputLimit: 4 * bound });
      const readers = await Promise.all(Array.from({ length: 4 }, () => gather(command.output())));
      for (const { chunks, length, dropped } of readers) {
        expect({ length, dropped }).toEqual({ length: total, dropped: 0 });
        expectGapless(chunks);
      }
    });

    test("a command whose reader waits for it ends when it is killed, and goes on when its reader leaves", async () => {
      const [killed, left] = await Promise.all([0, 1].map(() => start(machine(), print, { outputLimit: bound })));
      const readers = [killed, left].map((command) => command?.output()[Symbol.asyncIterator]());
      for (const reader of readers) await reader?.next();
      await killed?.signal(9);
      expect(await killed?.exited).toMatchObject({ signal: 9 });
      for (const reader of readers) await reader?.return?.();
      expect(await left?.exited).toMatchObject({ code: 0, outputEnd: total });
    });

    test("a command that waits for its reader goes on when the runtime is closed and opened again", async () => {
      const own = await bootFor(host());
      const command = await start(own, print, { outputLimit: bound });
      const reader = command.output()[Symbol.asyncIterator]();
      await reader.next();
      await reader.next();
      await host().reopen();
      await reader.return?.();
      const again = host().runtime.machine(own.id)?.process(command.id);
      const read = again && (await gather(again.output()));
      expect((read?.length ?? 0) + (read?.dropped ?? 0)).toBe(total);
      await host().runtime.machine(own.id)?.stop();
    });
  });

  describe("output of the past", () => {
    test("can be read after the machine has stopped, also of a command that was cut off", async () => {
      const { runtime } = host();
      const machine = await bootFor(host());
      const done = await start(machine, ["sh", "-c", "echo out; echo err >&2"]);
      const cut = await start(machine, ["sh", "-c", "echo so far; exec sleep 1000"]);
      await until(cut.output(), "so far");
      await done.exited;
      await machine.stop();
      expect(await gather(runtime.output(machine.id, done.id))).toMatchObject({ stdout: "out\n", stderr: "err\n" });
      expect(await gather(runtime.output(machine.id, done.id, { from: 4 }))).toMatchObject({
        stdout: "",
        stderr: "err\n",
      });
      expect((await gather(runtime.output(machine.id, cut.id))).stdout).toBe("so far\n");
    });

    test("is the same after the runtime was opened again", async () => {
      const machine = await bootFor(host());
      const loud = await start(
        machine,
        ["python3", "-c", "import os; [os.write(1, b'y' * 65536) for _ in range(64)]"],
        {
          outputLimit: 1 << 20,
        },
      );
      await loud.exited;
      const before = await gather(loud.output());
      await run(machine, ["true"]);
      await host().reopen();
      const again = host().runtime.machine(machine.id);
      expect(again?.process(loud.id)?.exit).toMatchObject({ code: 0, outputEnd: 64 * 65_536 });
      const after = await gather(host().runtime.output(machine.id, loud.id));
      expect(after).toMatchObject({ length: before.length, dropped: before.dropped });
      await again?.stop();
      await host().reopen();
      expect(await gather(host().runtime.output(machine.id, loud.id))).toMatchObject({ length: before.length });
    });

    test("of many commands stays apart", async () => {
      const machine = await bootFor(host());
      const ids = ["a", "a-1", "a_1", "A"];
      for (const id of ids) await run(machine, ["echo", `of ${id}`], { id });
      for (const id of ids) expect((await gather(host().runtime.output(machine.id, id))).stdout).toBe(`of ${id}\n`);
      expect((await python(machine, "print(1)")).stdout).toBe("1\n");
    });
  });
}

/** each chunk begins at the end of the one before it, plus the dropped bytes between */
function expectGapless(chunks: OutputChunk[]): void {
  let at = chunks[0]?.offset ?? 0;
  for (const [n, chunk] of chunks.entries()) {
    const expected = n === 0 ? at : at + (chunk.dropped ?? 0);
    if (chunk.offset !== expected) throw new Error(`Chunk ${n} begins at ${chunk.offset}, not at ${expected}`);
    at = chunk.offset + chunk.data.length;
  }
}
