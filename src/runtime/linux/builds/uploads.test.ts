/** Archives for later builds: whole or not there, bounded, and gone when no build uses them. */

import { readdir, utimes } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { Uploads } from "./uploads.ts";

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function* broken(): AsyncGenerator<Uint8Array> {
  yield Buffer.from("half");
  throw new Error("the client has gone");
}

test("an upload is there when it is whole; a broken or too long one leaves what was there", async () => {
  await using undo = new AsyncDisposableStack();
  const folder = join(await tempDir(undo), "uploads");
  const uploads = new Uploads({ folder, largest: 10, requireRoom: () => undefined });
  expect([await uploads.has("a"), await uploads.open("a"), await uploads.prune(Date.now())]).toEqual([
    false,
    undefined,
    0,
  ]);
  await expect(uploads.keep("a", broken())).rejects.toThrow("the client has gone");
  expect(await uploads.has("a")).toBe(false);
  await uploads.keep("a", chunks("one", "two"));
  await expect(uploads.keep("a", broken())).rejects.toThrow();
  await expect(uploads.keep("a", chunks("12345", "678901"))).rejects.toMatchObject({ code: "limit" });
  const full = new Uploads({
    folder,
    largest: 10,
    requireRoom: () => {
      throw new Error("full");
    },
  });
  await expect(full.keep("a", chunks("x"))).rejects.toThrow("full");
  expect((await buffer((await uploads.open("a")) ?? chunks())).toString()).toBe("onetwo");
  expect(await readdir(folder)).toEqual(["a"]);
});

test("uploads that no build has used for long are deleted", async () => {
  await using undo = new AsyncDisposableStack();
  const folder = await tempDir(undo);
  const uploads = new Uploads({ folder, largest: 10, requireRoom: () => undefined });
  for (const key of ["old", "used"]) {
    await uploads.keep(key, chunks(key));
    await utimes(join(folder, key), 1, 1);
  }
  await buffer((await uploads.open("used")) ?? chunks());
  expect(await uploads.prune(Date.now() - 60_000)).toBe(1);
  expect([await uploads.has("old"), await uploads.has("used")]).toEqual([false, true]);
});
