/** The lines of the ledger: each is read as it was written, and damaged and newer ones are told apart. */

import { expect, test } from "vitest";
import { type HostResource, ledgerVersion, readLedgerLine, writeLedgerLine } from "./ledger-line.ts";

const kinds = ["cgroup", "mount", "directory", "socket", "namespace"] as const;
const resources: HostResource[] = kinds.map((kind) => ({ kind, name: `a ${kind}` }));

test("a line is read as it was written, with every kind of resource", () => {
  for (const line of [{ make: resources }, { gone: resources }, { make: resources, gone: resources }, {}]) {
    expect(readLedgerLine(writeLedgerLine(line))).toEqual(line);
  }
});

test("an invalid line is not read", () => {
  for (const text of ["", '{"make":[', "[]", "null", '{"make":[{"kind":"later","name":"a"}]}']) {
    expect(readLedgerLine(text)).toBeUndefined();
  }
});

test("a line of a newer version is refused with a clear error", () => {
  expect(() => readLedgerLine(`{"v":${ledgerVersion + 1},"make":[]}`)).toThrow(
    /^Cannot read the ledger of what is on the host: its format is version 2/,
  );
});
