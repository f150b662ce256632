/** Tests of the newest lines of several logs: their order, pages and filter, and that old logs are not read. */

import { expect, test } from "vitest";
import { session } from "../../../test/harness/fake-core.ts";
import type { EgressLogLine } from "../../protocols/egress-log.ts";
import type { EgressJournal } from "../ports/runtime.ts";
import { newestEgress } from "./newest-egress.ts";

/** a log with a line at each of these times; those with odd ids are refused */
function logOf(id: string, times: number[]) {
  const read: string[] = [];
  const lines = times.map((at, i): EgressLogLine => {
    const decision = { protocol: "tcp", allowed: i % 2 === 1 } as const;
    return { id: i + 1, at, ...decision, count: 1, ended: 0, bytesIn: 0, bytesOut: 0 };
  });
  const journal: Pick<EgressJournal, "newest" | "changedAt"> = {
    async newest({ limit, refused, isWanted }) {
      read.push(id);
      const wanted = lines.filter((line) => isWanted(line) && !(refused && "allowed" in line && line.allowed));
      return wanted.toReversed().slice(0, limit);
    },
    changedAt: async () => times.at(-1),
  };
  return { session: { ...session, id }, journal: journal as EgressJournal, read };
}

test("lines of all logs come newest first, each once, in pages", async () => {
  const logs = [logOf("a", [10, 20, 30, 40]), logOf("b", [20, 20, 35]), logOf("c", []), logOf("d", [5])];
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const { items, next } = await newestEgress(logs, { limit: 3, cursor });
    seen.push(...items.map(({ session: { id }, line }) => `${line.at}${id}${line.id}`));
    cursor = next;
  } while (cursor);
  expect(seen).toEqual(["40a4", "35b3", "30a3", "20b2", "20b1", "20a2", "10a1", "5d1"]);
});

test("only refused ones, if asked", async () => {
  const { items, next } = await newestEgress([logOf("a", [10, 20, 30, 40])], { limit: 5, refused: true });
  expect([items.map(({ line }) => line.at), next]).toEqual([[30, 10], undefined]);
});

test("a log that has not changed for long is not read", async () => {
  const [old, young] = [logOf("a", [1]), logOf("b", [5000, 6000, 7000])];
  await newestEgress([old, young], { limit: 2 });
  expect([old.read, young.read]).toEqual([[], ["b"]]);
});

test("a cursor of another list is refused", async () => {
  await expect(newestEgress([], { limit: 1, cursor: "x" })).rejects.toMatchObject({ code: "invalid" });
});
