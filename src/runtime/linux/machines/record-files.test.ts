/** The files with machines' records: read as they were written, and left alone where a newer version has written them. */

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import type { MachineRecord } from "../../../protocols/machine-record.ts";
import { readRecords, writeRecord } from "./record-files.ts";

const record: MachineRecord = {
  id: "s1",
  name: "m1",
  spec: {
    id: "s1",
    root: { image: "host" },
    limits: { vcpus: 1, memory: 2, pids: 3, disk: 4 },
    network: "custom",
    sudo: true,
    mounts: [],
  },
  pid: 7,
  bootId: "b",
  base: 8,
  bootedAt: 9,
  image: { reference: "default@1", layers: ["a"], env: { PATH: "/bin" } },
};

test("a record is read as it was written", async () => {
  const { places, folder } = await machines();
  writeRecord(folder, record);
  expect(readRecords(places)).toEqual([{ folder, name: "m1", record }]);
});

test("a record of a newer version is refused in a sentence, and stays as it is", async () => {
  const { places, folder } = await machines();
  const text = JSON.stringify({ ...record, v: 99 });
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
