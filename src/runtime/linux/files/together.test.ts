/** Several operations on files with one process inside. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import type { FileSession } from "./file-session.ts";
import { filesOver } from "./files.ts";

const guest = useFileGuest();

test("operations together share one connection, which is closed after them, also if one fails", async () => {
  const sessions: { session: FileSession; isClosed: boolean }[] = [];
  const counted = filesOver(async () => {
    const opened = { session: await guest.connect(), isClosed: false };
    opened.session.whenClosed(() => {
      opened.isClosed = true;
    });
    sessions.push(opened);
    return opened.session;
  });
  const path = join(await tempDir(), "a");
  const found = await counted.together(async (kept) => {
    await Promise.all([kept.write(path, Buffer.from("hello")), kept.mkdir(`${path}.d`)]);
    const [contents, { size }] = await Promise.all([kept.read(path).toArray(), kept.stat(path)]);
    return { text: Buffer.concat(contents).toString(), size };
  });
  expect(found).toEqual({ text: "hello", size: 5 });
  await expect(counted.together((kept) => kept.stat(`${path}.missing`))).rejects.toThrow("missing");
  expect(sessions).toHaveLength(2);
  await expect.poll(() => sessions.every(({ isClosed }) => isClosed)).toBe(true);
});
