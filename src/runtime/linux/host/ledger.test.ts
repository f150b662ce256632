/** The ledger: what it remembers across crashes at any byte, and how it is held against the host. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import type { HostResource } from "../../../protocols/ledger-line.ts";
import { difference, Ledger } from "./ledger.ts";

const cgroup: HostResource = { kind: "cgroup", name: "/sys/fs/cgroup/x" };
const folder: HostResource = { kind: "directory", name: "/store/machines/m1" };
const socket: HostResource = { kind: "socket", name: "/run/m1.sock" };

async function ledgerPath(): Promise<string> {
  return join(await tempDir(), "ledger.jsonl");
}

describe("the ledger", () => {
  test("knows what was made and is not gone, also when it is opened again", async () => {
    const path = await ledgerPath();
    const ledger = new Ledger(path);
    expect(ledger.outstanding()).toEqual([]);
    ledger.make([cgroup, folder]);
    ledger.make([socket]);
    ledger.gone([folder]);
    expect(ledger.outstanding()).toEqual([cgroup, socket]);
    ledger.close();
    const again = new Ledger(path);
    expect(again.outstanding()).toEqual([cgroup, socket]);
    again.close();
  });

  test("of a newer version is refused in a sentence, and stays as it is", async () => {
    const path = await ledgerPath();
    const text = `${JSON.stringify({ v: 99, make: [cgroup] })}\n`;
    writeFileSync(path, text);
    expect(() => new Ledger(path)).toThrow(/^Cannot read the ledger of what is on the host: .* version 99/);
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  test("has every line on the file when the call returns", async () => {
    const path = await ledgerPath();
    const ledger = new Ledger(path);
    ledger.make([cgroup]);
    expect(readFileSync(path, "utf8")).toBe(`${JSON.stringify({ make: [cgroup] })}\n`);
    ledger.close();
  });

  test("tells resources of different kinds with one name apart", async () => {
    const ledger = new Ledger(await ledgerPath());
    ledger.make([
      { kind: "socket", name: "m1" },
      { kind: "namespace", name: "m1" },
    ]);
    ledger.gone([{ kind: "socket", name: "m1" }]);
    expect(ledger.outstanding()).toEqual([{ kind: "namespace", name: "m1" }]);
    ledger.close();
  });

  test("counts a last line that is cut short, at whichever byte, as not written", async () => {
    const path = await ledgerPath();
    const whole = `${JSON.stringify({ make: [cgroup] })}\n`;
    const last = `${JSON.stringify({ gone: [cgroup] })}\n`;
    for (let cut = 0; cut < last.length; cut++) {
      writeFileSync(path, whole + last.slice(0, cut));
      const ledger = new Ledger(path);
      expect(ledger.outstanding()).toEqual([cgroup]);
      ledger.make([socket]);
      ledger.close();
      const again = new Ledger(path);
      expect(again.outstanding()).toEqual([cgroup, socket]);
      again.close();
    }
  });

  test("stays as short as what is outstanding, however much came and went", async () => {
    const path = await ledgerPath();
    const ledger = new Ledger(path);
    for (let n = 0; n < 200; n++) {
      ledger.make([{ kind: "cgroup", name: `${n}` }]);
      ledger.gone([{ kind: "cgroup", name: `${n}` }]);
    }
    ledger.make([folder]);
    ledger.close();
    new Ledger(path).close();
    expect(readFileSync(path, "utf8")).toBe(`${JSON.stringify({ make: [folder] })}\n`);
  });

  test("a file that a crash left beside it is replaced", async () => {
    const path = await ledgerPath();
    writeFileSync(`${path}.new`, "half");
    const ledger = new Ledger(path);
    ledger.make([socket]);
    ledger.close();
    const again = new Ledger(path);
    expect(again.outstanding()).toEqual([socket]);
    again.close();
  });
});

describe("the difference between the ledger and the host", () => {
  test("is empty when they agree, in whatever order", () => {
    expect(difference([cgroup, folder], [folder, cgroup])).toEqual([]);
  });

  test("goes both ways", () => {
    expect(difference([cgroup, folder], [cgroup, socket])).toEqual([
      { ...socket, problem: "not in the ledger" },
      { ...folder, problem: "gone" },
    ]);
  });
});
