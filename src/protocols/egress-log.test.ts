/** The lines of the egress log: each is read as it was written, with every field, and by other versions. */

import { expect, test } from "vitest";
import {
  type EgressCause,
  type EgressLogLine,
  egressLineId,
  egressLogVersion,
  lastEgressLineId,
  readEgressLine,
  writeEgressLine,
} from "./egress-log.ts";

const full: Required<Exclude<EgressLogLine, { dropped: number }>> = {
  id: 7,
  at: 1763194000123,
  protocol: "https",
  name: "api.test",
  sni: "api.test",
  address: "93.184.216.34",
  port: 443,
  method: "GET",
  path: "/a",
  status: 502,
  type: "A",
  allowed: false,
  reason: "no",
  failure: "the server does not answer",
  rule: "allow *.test",
  cause: { kind: "request", rule: 2 },
  missing: { allow: ["api.test"], subnets: { allow: ["93.184.216.34/32"] } },
  command: "cmd_1",
  program: "curl",
  count: 2,
  ended: 1,
  bytesIn: 5120,
  bytesOut: 840,
};

test("a line is read as it was written, with every field and with none that it can do without", () => {
  const { id, at, protocol, allowed, count, ended, bytesIn, bytesOut } = full;
  const least = { id, at, protocol, allowed, count, ended, bytesIn, bytesOut };
  for (const line of [full, least, { id: 8, at: 9, dropped: 3 }]) {
    expect(readEgressLine(writeEgressLine(line))).toEqual(line);
    expect(egressLineId(writeEgressLine(line))).toBe(line.id);
  }
});

test("every cause is read as it was written, and a line without one is read", () => {
  const { cause: _, ...older } = full;
  expect(readEgressLine(writeEgressLine(older))).toEqual(older);
  const plain = [
    "allow-all",
    "deny-all",
    "policy",
    "by-subnet-only",
    "wrong-name",
    "special-address",
    "other-resolver",
    "around-rules",
    "unsupported",
    "unknown-policy",
    "request",
    "interception",
    "cut-off",
  ] as const;
  const causes: EgressCause[] = [...plain.map((kind) => ({ kind })), { kind: "denied-subnet", subnet: "10.0.0.0/8" }];
  for (const cause of causes) {
    expect(readEgressLine(writeEgressLine({ ...full, cause }))).toEqual({ ...full, cause });
  }
});

test("the id of a text's last whole line is found", () => {
  const [one, two] = [1, 2].map((id) => writeEgressLine({ id, at: 1, dropped: 1 }));
  expect(lastEgressLineId(`${one}${two}{"id":3,"at"`)).toBe(2);
  expect(lastEgressLineId('{"id":3,')).toBeUndefined();
});

test("an invalid line is not read, and an unknown field is ignored", () => {
  for (const text of ["", "{", "[]", "null", '{"id":1,"at":2}']) expect(readEgressLine(text)).toBeUndefined();
  expect(readEgressLine('{"id":1,"at":2,"dropped":3,"later":true}')).toEqual({ id: 1, at: 2, dropped: 3 });
});

test("a line of a newer version is refused with a clear error", () => {
  const newer = egressLogVersion + 1;
  expect(() => readEgressLine(`{"id":1,"v":${newer}}`)).toThrow(
    `Cannot read the egress log: its format is version ${newer}, and this version of Sandkeep knows only ${egressLogVersion}`,
  );
});
