/** The record of a machine: read as it was written, and left alone where a newer version has written it. */

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { type MachineRecord, readRecords, writeRecord } from "./machine-record.ts";

const usage = { cpuTime: 1, peakMemory: 2, memory: 3, disk: 4, network: { received: 5, sent: 6 } };
const full = {
  id: "s1",
  name: "m1",
  spec: { id: "s1", sudo: true, mounts: [], line: "l1", network: "custom", limits: {} },
  pid: 7,
  bootId: "b",
  base: 8,
  bootedAt: 9,
  image: { reference: "default@1", layers: ["a"], env: { PATH: "/bin" } },
  volume: { whole: true, inherited: 10 },
  snapshotLayers: ["s"],
  networkUnsure: true,
  ended: { machineId: "s1", cause: "asked", reason: "It was asked to", endedAt: 11, usage },
} as unknown as Required<MachineRecord>;

test("a record is read as it was written, with every field and with none that it can do without", async () => {
  const { places, folder } = await machines();
  const { volume: _volume, snapshotLayers: _layers, networkUnsure: _unsure, ended: _ended, ...least } = full;
  for (const record of [full, least]) {
    writeRecord(folder, record);
    expect(readRecords(places)).toEqual([{ folder, name: "m1", record }]);
  }
});

test("a record of a newer version is refused in a sentence, and stays as it is", async () => {
  const { places, folder } = await machines();
  const text = JSON.stringify({ ...full, v: 99 });
  writeFileSync(join(folder, "machine.json"), text);
  expect(() => readRecords(places)).toThrow(/^Cannot read the record of a machine: its format is version 99/);
  expect(readdirSync(folder)).toEqual(["machine.json"]);
  expect(readFileSync(join(folder, "machine.json"), "utf8")).toBe(text);
});

async function machines() {
  const directory = await tempDir();
  const places = { machines: join(directory, "machines"), spares: join(directory, "spares") };
  const folder = join(places.machines, "m1");
  mkdirSync(folder, { recursive: true });
  mkdirSync(places.spares);
  return { places, folder };
}
