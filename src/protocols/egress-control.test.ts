/** The messages between the daemon and the egress process: each side reads what the other writes, with every field. */

import { expect, test } from "vitest";
import {
  type DaemonLine,
  type EgressProcessLine,
  egressControlVersion,
  otherControlVersion,
  readDaemonLine,
  readEgressProcessLine,
  writeControlLine,
} from "./egress-control.ts";

test("every order and answer of the daemon is read as it was written", () => {
  const settings = { allow: ["10.1.0.0/16"], deny: ["10.0.0.0/8"], resolvers: ["1.1.1.1"], roots: ["PEM"] };
  const proxy = { host: "proxy.test", port: 3128, authorization: "Basic x", names: true, direct: ["a.test"] };
  const forwardHeaders = { host: "x-host", scheme: "x-scheme", port: "x-port", path: "x-path", token: "x-token" };
  const match = { path: { startsWith: "/v1" }, method: ["GET"] };
  const action = { kind: "set-headers", headers: { authorization: "secret" } };
  const network = {
    mode: "custom",
    domains: [{ domain: "a.test", rules: [{ match, action }] }],
    allowedCidrs: ["93.0.0.0/8"],
    deniedCidrs: ["93.1.0.0/16"],
    authority: { keyMaterial: "00", serial: "01" },
    identity: { teamId: "team_1" },
  } as const;
  const lines: DaemonLine[] = [
    { id: 1, kind: "settings", settings },
    { id: 2, kind: "settings", settings: { ...settings, proxy, forwardHeaders } },
    { id: 3, kind: "set", machine: "m0", network: structuredClone(network) as never, fresh: true },
    { id: 4, kind: "drop", machine: "m0" },
    { id: 5, kind: "keep", machines: ["m0", "m1"] },
    { id: 6, kind: "flush", machine: "m0" },
    { kind: "commands", answers: [{ question: 5, command: "cmd_1" }, { question: 6 }] },
  ];
  for (const line of lines) expect(readDaemonLine(writeControlLine(line))).toEqual({ line });
});

test("every message of the egress process is read as it was written", () => {
  const lines: EgressProcessLine[] = [
    { v: egressControlVersion },
    { id: 1 },
    { id: 2, error: "no" },
    { questions: [{ question: 5, machine: "m0", ancestry: [[12, 10, 1763194000123]] }] },
  ];
  for (const line of lines) expect(readEgressProcessLine(writeControlLine(line))).toEqual(line);
});

test("an unreadable line is recognized, with its id if it has one", () => {
  expect(readDaemonLine('{"id":7,"kind":"later","x":1}')).toEqual({ unreadable: 7 });
  for (const text of ["", "{", "[]", "null", '{"kind":"set"}']) expect(readDaemonLine(text)).toEqual({ unreadable: 0 });
  for (const text of ["", "{", "[]", "null", '{"later":1}']) expect(readEgressProcessLine(text)).toBeUndefined();
});

test("an unknown field is ignored", () => {
  expect(readDaemonLine('{"id":7,"kind":"drop","machine":"a","later":1}')).toEqual({
    line: { id: 7, kind: "drop", machine: "a" },
  });
  expect(readEgressProcessLine('{"id":7,"later":1}')).toEqual({ id: 7 });
});

test("a process of another version is reported as older or newer", () => {
  expect(otherControlVersion(egressControlVersion)).toBeUndefined();
  expect(otherControlVersion(egressControlVersion - 1)).toMatch(/^is of an older version of Sandkeep: /);
  expect(otherControlVersion(egressControlVersion + 1)).toMatch(/^is of a newer version of Sandkeep: /);
});
