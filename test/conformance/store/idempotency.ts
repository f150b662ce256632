/** Idempotency keys: the first request is executed, repeats get its answer. */

import { describe, expect, test } from "vitest";
import { freshStore, noon, type StoreHost, unique } from "./host.ts";

const answer = { status: 200, body: JSON.stringify({ text: "ä\0🏖" }) };

export function idempotencySuite(host: () => StoreHost): void {
  describe("idempotent requests", () => {
    test("a repeat waits while the first runs, and then gets its answer", async () => {
      const { store } = host();
      const key = unique("key ü ");
      expect(await store.beginIdempotent(key, noon)).toBe("new");
      expect(await store.beginIdempotent(key, noon)).toBe("running");
      await store.endIdempotent(key, answer);
      expect(await store.beginIdempotent(key, noon)).toEqual(answer);
      expect(await store.beginIdempotent(unique("other-"), noon)).toBe("new");
    });

    test("of many parallel requests one is new", async () => {
      const { store } = host();
      const key = unique("key-");
      const begun = await Promise.all(Array.from({ length: 8 }, () => store.beginIdempotent(key, noon)));
      expect(begun.filter((outcome) => outcome === "new")).toHaveLength(1);
      expect(begun.filter((outcome) => outcome === "running")).toHaveLength(7);
    });

    test("a request that ended without an answer may be tried again", async () => {
      const { store } = host();
      const key = unique("key-");
      await store.beginIdempotent(key, noon);
      await store.endIdempotent(key, undefined);
      expect(await store.beginIdempotent(key, noon)).toBe("new");
    });

    test("keys older than a given moment are forgotten", async () => {
      const store = await freshStore(host());
      for (const [key, at] of [
        ["old", noon],
        ["new", noon + 1],
      ] as const) {
        await store.beginIdempotent(key, at);
        await store.endIdempotent(key, answer);
      }
      await store.forgetIdempotent(noon + 1);
      expect(await store.beginIdempotent("old", noon + 2)).toBe("new");
      expect(await store.beginIdempotent("new", noon + 2)).toEqual(answer);
    });

    test("unfinished requests can be abandoned, and answers stay", async () => {
      const store = await freshStore(host());
      await store.beginIdempotent("running", noon);
      await store.beginIdempotent("ended", noon);
      await store.endIdempotent("ended", answer);
      await store.abandonIdempotent();
      expect(await store.beginIdempotent("running", noon)).toBe("new");
      expect(await store.beginIdempotent("ended", noon)).toEqual(answer);
    });
  });
}
