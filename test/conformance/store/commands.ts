/** Commands: recorded from their start, ended once, listed for their session in order. */

import { describe, expect, test } from "vitest";
import type { Command } from "../../../src/core/model/sandbox.ts";
import { commandOf, newSandbox, noon, type StoreHost } from "./host.ts";

export function commandsSuite(host: () => StoreHost): void {
  describe("commands", () => {
    test("every field of a command comes back as it was", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const command = commandOf(session, {
        name: "sh",
        args: ["-c", "printf 'ä\0\n' \ud83c\udfd6", ""],
        cwd: "/tmp/ü",
      });
      await store.insertCommand(command);
      expect(await store.getCommand(command.id)).toStrictEqual(command);
      expect(await store.getCommand("cmd_none")).toBeUndefined();
    });

    test("a command of a session that is unknown is refused", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const command = commandOf({ ...session, id: "sbx_none" });
      await expect(store.insertCommand(command)).rejects.toMatchObject({ code: "not-found" });
    });

    test("the first end of a command stays", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const command = commandOf(session);
      await store.insertCommand(command);
      const ended = { ...command, exitCode: 0, endedAt: noon + 5 };
      expect(await store.endCommand(command.id, { exitCode: 0, endedAt: noon + 5 })).toStrictEqual(ended);
      const again = { exitCode: 137, endedAt: noon + 6, endCause: "session-ended" } as const;
      expect(await store.endCommand(command.id, again)).toStrictEqual(ended);
      expect(await store.getCommand(command.id)).toStrictEqual(ended);
      expect(await store.endCommand("cmd_none", again)).toBeUndefined();
    });

    test("of many ends at once one is kept, and all callers get that one", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const command = commandOf(session);
      await store.insertCommand(command);
      const ends = await Promise.all(
        Array.from({ length: 8 }, (_, exitCode) =>
          store.endCommand(command.id, { exitCode, endedAt: noon + exitCode }),
        ),
      );
      const kept = await store.getCommand(command.id);
      expect(ends).toEqual(ends.map(() => kept));
    });

    test("a session's commands are listed with the newest last, and the open ones alone", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const { session: stranger } = await newSandbox(store);
      const [third, first, second] = [3, 1, 2].map((at) => commandOf(session, { startedAt: noon + at }));
      for (const command of [third, first, second, commandOf(stranger)])
        if (command) await store.insertCommand(command);
      expect(await store.listCommands(session.id)).toEqual([first, second, third]);
      await store.endCommand(second?.id ?? "", { exitCode: 1, endedAt: noon + 9 });
      expect(await store.openCommands(session.id)).toEqual([first, third]);
      expect(await store.listCommands(session.id)).toHaveLength(3);
      expect(await store.listCommands("sbx_none")).toEqual([]);
    });

    test("a session's commands come in pages of either order, also those of one millisecond", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const { session: stranger } = await newSandbox(store);
      const made = [0, 1, 1, 1, 2].map((at) => commandOf(session, { startedAt: noon + at }));
      for (const command of [...made, commandOf(stranger)]) await store.insertCommand(command);
      const all = await store.listCommands(session.id);
      for (const order of ["asc", "desc"] as const) {
        const pages: Command[][] = [];
        for (let cursor: string | undefined; pages.length < 9; ) {
          const { items, next } = await store.pageCommands(session.id, { limit: 2, order, ...(cursor && { cursor }) });
          pages.push(items);
          cursor = next;
          if (cursor === undefined) break;
          const foreign = store.pageCommands(stranger.id, { limit: 2, order, cursor });
          await expect(foreign).rejects.toMatchObject({ code: "invalid" });
        }
        expect(pages.map(({ length }) => length)).toEqual([2, 2, 1]);
        expect(pages.flat()).toEqual(order === "asc" ? all : all.toReversed());
      }
    });

    test("a session's commands are counted by when they began and ended, and by how", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const { session: stranger } = await newSandbox(store);
      const run = async (startedAt: number, endedAt?: number, exitCode?: number) => {
        const command = commandOf(session, { startedAt: noon + startedAt });
        await store.insertCommand(command);
        if (endedAt !== undefined)
          await store.endCommand(command.id, { endedAt: noon + endedAt, ...(exitCode !== undefined && { exitCode }) });
      };
      await store.insertCommand(commandOf(stranger, { startedAt: noon + 15 }));
      await run(-9, -1, 1); // before
      await run(-5); // from before, and still running
      await run(-5, 10, 0);
      await run(0, 9, 7);
      await run(9, 29, 0);
      await run(10, 10); // without an exit code
      await run(30, 31, 1); // after
      const query = { limit: 9, order: "asc" as const };
      const { items } = await store.pageCommands(session.id, { ...query, from: noon + 10, to: noon + 29 });
      expect(items.map(({ startedAt }) => startedAt - noon)).toEqual([-5, -5, 9, 10]);
      const { next = "" } = await store.pageCommands(session.id, { ...query, limit: 1, from: noon + 10 });
      const other = store.pageCommands(session.id, { ...query, from: noon + 11, cursor: next });
      await expect(other).rejects.toMatchObject({ code: "invalid" });
      const tally = await store.tallyCommands(session.id, { from: noon, step: 10, count: 3 });
      expect(tally).toEqual({
        running: 2,
        parts: [
          { part: 0, started: 2, ended: 1, failed: 1 },
          { part: 1, started: 1, ended: 2, failed: 0 },
          { part: 2, started: 0, ended: 1, failed: 0 },
        ],
      });
      expect(await store.tallyCommands("sbx_none", { from: noon, step: 10, count: 3 })).toEqual({
        running: 0,
        parts: [],
      });
    });
  });
}
