/** Reading the egress log: from any position, over a change of files, while it is written, and when parts are missing. */

import { appendFile, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { eventually, tempDir } from "../../../../test/harness/harness.ts";
import type { EgressLine } from "../../../core/network/egress-log.ts";
import { LogFiles } from "../../../egress/log/log-file.ts";
import { egressJournal } from "./egress-journal.ts";

test("pages go on where the last one ended, over both files", async () => {
  const { write, journal, folder } = await opened(1200);
  for (let port = 1; port <= 12; port++) await write(port);
  expect((await stat(join(folder, "egress.1.jsonl"))).size).toBeGreaterThan(1000);
  const ports: (number | undefined)[] = [];
  for (let after = 0, more = true; more; ) {
    const page = await journal.lines({ after, limit: 3 });
    for (const line of page.lines) ports.push("port" in line ? line.port : undefined);
    after = page.lines.at(-1)?.id ?? after;
    more = page.more;
  }
  expect(ports).toEqual(Array.from({ length: 12 }, (_, i) => i + 1));
  expect((await journal.lines({ after: 12, limit: 3 })).lines).toEqual([]);
});

test("what is no longer kept is said, with how many lines it was", async () => {
  const { write, journal } = await opened(300);
  for (let port = 1; port <= 10; port++) await write(port);
  const { lines } = await journal.lines({ after: 2, limit: 100 });
  const [gap, next] = lines;
  expect(gap).toEqual({ id: expect.any(Number), at: 7, forgotten: (gap?.id ?? 0) - 2 });
  expect(next?.id).toBe((gap?.id ?? 0) + 1);
  expect(lines.at(-1)?.id).toBe(10);
});

test("a part of a line, and a line that is none, are passed over", async () => {
  const { write, journal, folder } = await opened();
  await write(1);
  await appendFile(join(folder, "egress.jsonl"), '{"id":2,"at":7}\n{"id":3,"at":7,"dropped":4}\n{"id":4,"at":7,"dro');
  const { lines } = await journal.lines({ after: 1, limit: 10 });
  expect(lines).toEqual([
    { id: 2, at: 7, forgotten: 1 },
    { id: 3, at: 7, dropped: 4 },
  ]);
});

test("a line of a newer version is refused in a sentence", async () => {
  const { journal, folder } = await opened();
  await writeFile(join(folder, "egress.jsonl"), '{"id":1,"at":7,"v":99}\n');
  await expect(journal.lines({ after: 0, limit: 10 })).rejects.toThrow(/^Cannot read the egress log: .* version 99/);
});

test("a follower sees each line once, also while files change places, and ends with the machine", async () => {
  const { write, journal, end } = await opened(1000);
  const seen: EgressLine[] = [];
  const following = (async () => {
    for await (const line of journal.follow({ after: 0 })) seen.push(line);
  })();
  for (let port = 1; port <= 20; port++) {
    await write(port);
    if (port % 5 === 0) await eventually("it is seen", () => seen.at(-1)?.id === port);
  }
  end();
  await write(21);
  await following;
  expect(seen.map(({ id }) => id)).toEqual(Array.from({ length: 21 }, (_, i) => i + 1));
  expect(seen.every((line) => "port" in line)).toBe(true);
});

test("a follower that leaves ends quietly", async () => {
  const { write, journal } = await opened();
  await write(1);
  const leave = new AbortController();
  for await (const line of journal.follow({ after: 0, signal: leave.signal })) {
    expect(line.id).toBe(1);
    leave.abort();
  }
});

test("a machine that wanted nothing has no lines, no hosts and no ports", async () => {
  const { journal, end } = await opened();
  expect(await journal.lines({ after: 0, limit: 10 })).toEqual({ lines: [], more: false });
  expect(await journal.hosts()).toEqual([]);
  expect(await journal.ports()).toEqual([]);
  end();
  for await (const _ of journal.follow({ after: 0 })) throw new Error("There is a line");
});

test("hosts are what the egress process counted", async () => {
  const { journal, folder } = await opened();
  const counts = { "api.test": { bytesIn: 16, bytesOut: 2, count: 2 } };
  await writeFile(join(folder, "egress-hosts.json"), JSON.stringify(counts));
  expect(await journal.hosts()).toEqual([{ host: "api.test", connections: 2, bytesIn: 16, bytesOut: 2 }]);
});

async function opened(mostBytes = 1 << 20) {
  const directory = await tempDir();
  const folder = join(directory, "a");
  await mkdir(folder);
  const log = new LogFiles({ directory, now: () => 7, mostBytes });
  let ended = false;
  return {
    folder,
    journal: egressJournal({
      folder,
      portsFolder: folder,
      flush: () => log.flush(),
      flushPorts: async () => undefined,
      ended: () => ended,
    }),
    end: () => {
      ended = true;
    },
    async write(port: number) {
      log.decided({ machine: "a", protocol: "tcp", address: "93.184.216.34", port, allowed: true, rule: "allow-all" });
      await log.flush();
    },
  };
}
