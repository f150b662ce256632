/** The record of a machine: it is read as it was written, and damaged records are told apart from newer ones. */

import { expect, test } from "vitest";
import { type MachineRecord, machineRecordVersion, readMachineRecord, writeMachineRecord } from "./machine-record.ts";

type Ended = NonNullable<MachineRecord["ended"]>;

const snapshot: Required<Ended["snapshot"]> = { id: "p1", image: "host@1", layers: ["a"], size: 1, createdAt: 2 };
const usage: Required<Ended["usage"]> = {
  cpuTime: 1.5,
  memory: 2,
  peakMemory: 3,
  processes: 4,
  network: { received: 5, sent: 6 },
  disk: 7,
  outOfMemoryKills: 8,
};
const spec: Required<MachineRecord["spec"]> = {
  id: "s1",
  root: { snapshot: "p0" },
  limits: { vcpus: 0.5, memory: 1, pids: 2, disk: 3 },
  network: "custom",
  sudo: true,
  mounts: [{ path: "/data", drive: "d1", mode: "read-write" }],
  line: "l1",
};
/** with every optional field: does not compile if the type has one that is missing here */
const full: Required<MachineRecord> = {
  id: "s1",
  name: "m1",
  spec,
  pid: 7,
  bootId: "b",
  base: 8,
  bootedAt: 9,
  image: { reference: "host@1", layers: ["a"], env: { PATH: "/bin" } },
  volume: { whole: true, inherited: 10 },
  snapshotLayers: ["s"],
  networkUnsure: true,
  paused: true,
  ended: {
    machineId: "s1",
    cause: "asked",
    reason: "It was stopped",
    endedAt: 11,
    snapshot,
    usage,
  } satisfies Required<Ended>,
};

test("a record is read as it was written, with every field and with the fewest", () => {
  const { volume: _volume, snapshotLayers: _layers, networkUnsure: _unsure, paused: _paused, ended, ...least } = full;
  const { line: _line, ...leastSpec } = spec;
  const { snapshot: _snapshot, ...leastEnd } = ended;
  const { disk: _disk, ...leastUsage } = usage;
  const few = { ...least, spec: { ...leastSpec, root: { image: "host" } } };
  for (const record of [full, few, { ...few, ended: { ...leastEnd, usage: leastUsage } }]) {
    expect(readMachineRecord(writeMachineRecord(record))).toEqual(record);
  }
});

test("fields that this version does not know are kept", () => {
  const later = { ...full, later: 1, spec: { ...spec, later: { x: 1 } }, image: { ...full.image, later: [1] } };
  expect(readMachineRecord(JSON.stringify(later))).toEqual(later);
});

test("a number that could not be measured does not damage the record", () => {
  const record = { ...full, ended: { ...full.ended, usage: { ...usage, cpuTime: Number.NaN } } };
  expect(readMachineRecord(writeMachineRecord(record))?.ended?.usage.cpuTime).toBe(0);
});

test("a damaged record is not read", () => {
  const { pid: _pid, ...withoutPid } = full;
  for (const text of ["", "{", "[]", "null", '{"id":"s1"}', JSON.stringify(withoutPid)]) {
    expect(readMachineRecord(text)).toBeUndefined();
  }
});

test("a record of a newer version is refused with a clear error", () => {
  expect(() => readMachineRecord(JSON.stringify({ ...full, v: machineRecordVersion + 1 }))).toThrow(
    /^Cannot read the record of a machine: its format is version 2, and this version of Sandkeep knows only 1$/,
  );
});
