/** The progress of a copy: a bar on a terminal, lines elsewhere, and nothing for a short one. */

import { expect, test } from "vitest";
import { metered } from "./meter.ts";

/** a copy of 4 chunks of 25 bytes, one every `pace` ms */
async function copied(pace: number, { isTTY = false, isEndKnown = true } = {}) {
  const clock = { now: 0 };
  const shown: string[] = [];
  async function* bytes() {
    for (let at = 0; at < 4; at++) {
      clock.now += pace;
      yield Buffer.alloc(25);
    }
  }
  const context = {
    errors: { isTTY, columns: 60 } as NodeJS.WriteStream,
    now: () => clock.now,
    warn: (line: string) => void shown.push(line),
    write: async (_: unknown, text: string | Uint8Array) => void shown.push(String(text)),
  };
  const passed = await Array.fromAsync(
    metered(bytes(), { what: "Copying", of: isEndKnown ? 100 : undefined }, context),
  );
  expect(Buffer.concat(passed)).toHaveLength(100);
  return shown;
}

test("on a terminal a bar grows, and is gone at the end", async () => {
  expect(await copied(300, { isTTY: true })).toEqual([
    "\r\x1b[KCopying [###############               ] 50 % of 100 bytes",
    "\r\x1b[KCopying [#######################       ] 75 % of 100 bytes",
    "\r\x1b[KCopying [##############################] 100 % of 100 bytes",
    "\r\x1b[K",
  ]);
});

test("without a known end it counts", async () => {
  expect((await copied(600, { isTTY: true, isEndKnown: false }))[0]).toBe("\r\x1b[KCopying 25 bytes");
});

test("elsewhere a line says so now and then", async () => {
  expect(await copied(6000)).toEqual(["Copying: 50 % of 100 bytes", "Copying: 100 % of 100 bytes"]);
});

test.each([true, false])("a short copy shows nothing (terminal: %s)", async (isTTY) => {
  expect(await copied(10, { isTTY })).toEqual([]);
});
