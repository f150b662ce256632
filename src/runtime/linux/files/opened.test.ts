/** Files that are read together with their info. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { filesOver } from "./files.ts";

const guest = useFileGuest();

test("a small file takes one connection for its info and its bytes, and other files take two", async () => {
  let connections = 0;
  const files = filesOver(() => {
    connections++;
    return guest.connect();
  });
  const folder = await tempDir();
  const path = join(folder, "a");
  for (const [contents, wanted] of [["hello", 1] as const, ["x".repeat(70_000), 2] as const]) {
    await files.write(path, Buffer.from(contents));
    connections = 0;
    const { file, bytes } = await files.opened(path);
    expect(file).toMatchObject({ type: "file", size: contents.length });
    expect(Buffer.concat(await bytes().toArray()).toString()).toBe(contents);
    expect(connections).toBe(wanted);
    expect(String(await bytes({ offset: 1, length: 3 }).toArray())).toBe(contents.slice(1, 4));
  }
  const { file, bytes } = await files.opened("/proc/version");
  expect([file.size, Buffer.concat(await bytes().toArray()).length > 0]).toEqual([0, true]);
  expect((await files.opened(folder)).file.type).toBe("directory");
  await expect(files.opened(join(folder, "none"))).rejects.toMatchObject({ code: "not-found" });
});
