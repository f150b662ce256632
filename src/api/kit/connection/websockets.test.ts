/** The reason in a closing frame: ws throws for a longer one, which would end the daemon. */

import { expect, test } from "vitest";
import { closingReason } from "./websockets.ts";

test("a reason is cut to the bytes of a closing frame, between two characters", () => {
  expect(closingReason("short")).toBe("short");
  for (const character of ["x", "é", "日", "😀"]) {
    const reason = closingReason(`ab${character.repeat(200)}`);
    expect(Buffer.byteLength(reason)).toBeLessThanOrEqual(123);
    expect(Buffer.byteLength(reason)).toBeGreaterThan(114);
    expect(reason).toMatch(new RegExp(`^ab(${character})+$`, "u"));
  }
});
