/** Tests of how an agent's description of a file is read. */

import { expect, test } from "vitest";
import { FrameWriter, headerLength } from "../../../protocols/guest-frames.ts";
import { decodeEntry, infoOf } from "./file-entry.ts";

/** an entry of a file, up to its attributes */
function entry(): FrameWriter {
  const facts = new FrameWriter().str("").u8(1).u64(5).u32(0o644).u32(1000).u32(1000).u64(3000);
  return facts.u32(1).u32(0).u32(0).str("").u16(0);
}

test("an entry has the times of its last read and change, which an agent of an earlier version does not tell", () => {
  const payload = (writer: FrameWriter) => writer.frame(0, 0).subarray(headerLength);
  const current = infoOf(decodeEntry(payload(entry().u64(4000).u64(5000))), "/a/b");
  expect(current).toMatchObject({ name: "b", modifiedAt: 3000, accessedAt: 4000, changedAt: 5000 });
  const earlier = infoOf(decodeEntry(payload(entry())), "/a/b");
  expect(earlier).toMatchObject({ modifiedAt: 3000, accessedAt: 3000, changedAt: 3000 });
});
