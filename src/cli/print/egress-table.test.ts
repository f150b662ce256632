/** Tests of the table of an egress log: its lines, and that it contains no terminal control characters. */

import { expect, test } from "vitest";
import { type EgressEvent, eventHeader, eventRow, hostTable, portTable } from "./egress-table.ts";
import { plain, plainJson } from "./plain.ts";

const base = { id: 1, at: new Date(2026, 0, 2, 3, 4, 5).getTime() };
const counts = { count: 1, ended: 0, bytesIn: 0, bytesOut: 0 };

test.each<[string, Omit<EgressEvent, "id" | "at">, string[]]>([
  [
    "a refusal says why",
    { ...counts, protocol: "dns", name: "a.test", type: "AAAA", allowed: false, reason: "no", rule: "x" },
    ["denied", "a.test", "dns AAAA", "no"],
  ],
  [
    "a request says what was asked, how often and what the answer was",
    {
      ...counts,
      count: 3,
      protocol: "https",
      name: "a.test",
      port: 443,
      method: "GET",
      path: "/b",
      status: 200,
      allowed: true,
      rule: "allow a.test",
    },
    ["allowed", "a.test:443", "GET /b 200 ×3", "allow a.test"],
  ],
  [
    "a command and its program are named",
    {
      ...counts,
      protocol: "dns",
      name: "a.test",
      type: "A",
      allowed: true,
      rule: "allow-all",
      command: "cmd_0123456789abcdef0123456789ab",
      program: "curl",
    },
    ["allowed", "a.test", "dns A", "curl cmd_01234567", "allow-all"],
  ],
  [
    "an end says how much was moved",
    {
      protocol: "tcp",
      address: "2606::1",
      port: 9,
      allowed: true,
      rule: "allow-all",
      count: 0,
      ended: 1,
      bytesIn: 1500,
      bytesOut: 7,
    },
    ["closed", "[2606::1]:9", "tcp", "1.5 kB", "7 bytes", "allow-all"],
  ],
  ["what is missing is said", { dropped: 5 }, ["unseen", "5 decisions, too many at once"]],
  ["what was kept once too", { forgotten: 7 }, ["unseen", "7 lines that are no longer kept"]],
])("%s", (_, event, cells) => {
  const row = eventRow({ ...base, ...event });
  expect(row.split(/ {2,}/)).toEqual(["2026-01-02 03:04:05", ...cells]);
});

test("no text of a program reaches the terminal as a control character", () => {
  const hostile = "\u001b[2J\r\n\u009b31m\u202e\u2028\ud800x";
  expect(plain(hostile)).toBe("\\u001b[2J\\u000d\\u000a\\u009b31m\\u202e\\u2028\\ud800x");
  const row = eventRow({
    ...base,
    ...counts,
    protocol: "http",
    name: hostile,
    path: hostile,
    method: "GET",
    program: hostile,
    command: hostile,
    allowed: true,
  });
  expect(row).toMatch(/^[\x20-\x7e]+$/);
  expect(hostTable([{ host: hostile, connections: 1, bytesIn: 1, bytesOut: 1 }]).join("")).toMatch(/^[\x20-\x7e]+$/);
  expect(JSON.parse(plainJson({ hostile }))).toEqual({ hostile });
  expect(plainJson({ hostile })).toMatch(/^[\x20-\x7e]+$/);
});

test("hosts and ports are aligned in columns; without any there is no table", () => {
  expect(hostTable([])).toEqual([]);
  expect(
    hostTable([
      { host: "a-long-name.test", connections: 12, bytesIn: 2_000_000, bytesOut: 3 },
      { host: "b.test", connections: 1, bytesIn: 0, bytesOut: 0 },
    ]),
  ).toEqual([
    "HOST               CONNECTIONS            IN           OUT",
    "a-long-name.test            12          2 MB       3 bytes",
    "b.test                       1       0 bytes       0 bytes",
  ]);
  expect(portTable([])).toEqual([]);
  expect(portTable([{ port: 3000, connections: 2, bytesIn: 10, bytesOut: 20_000 }])).toEqual([
    "PORT   CONNECTIONS            IN           OUT",
    "3000             2      10 bytes         20 kB",
  ]);
});

test("the reason is aligned below its title, however long a program's name is", () => {
  const who = { command: "cmd_0123456789abcdef0123456789ab", program: "fifteen-letters" };
  const row = eventRow({ ...base, ...counts, ...who, protocol: "dns", name: "a.test", allowed: false, reason: "no" });
  const header = eventHeader();
  expect(row.indexOf("no", header.indexOf("WHO"))).toBe(header.indexOf("WHY"));
});

test.each([20, 40, 80, 200])(
  "on a terminal of %d columns no line is longer, and its columns are aligned",
  (columns) => {
    const event = { ...base, ...counts, protocol: "tls", name: `${"long.".repeat(20)}test`, port: 443, allowed: false };
    const lines = [
      eventHeader(columns),
      eventRow({ ...event, program: "curl", reason: "no rule of the policy allows it" }, columns),
      eventRow({ id: 1, at: 1, dropped: 12 }, columns),
    ];
    for (const line of lines) expect([...line].length, line).toBeLessThanOrEqual(columns);
    if (columns < 80) return;
    expect(lines[1]?.slice(lines[0]?.indexOf("VERDICT"))).toMatch(/^denied/);
    expect(lines[1]?.slice(lines[0]?.indexOf("WHERE"))).toMatch(/^long\./);
  },
);
