/** When a command on images says that it does not ask the daemon that the settings name. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { otherDaemonNote } from "./other-daemon.ts";

test.each([
  [undefined, false],
  ["", false],
  ["http://127.0.0.1:7700", false],
  ["http://localhost:7700/", false],
  ["http://127.0.0.1:7701", true],
  ["https://sandboxes.example.com", true],
  ["nonsense", true],
])("SANDKEEP_URL=%s", async (url, isNoted) => {
  const dataDir = await tempDir();
  await writeFile(join(dataDir, "address"), "http://127.0.0.1:7700\n");
  const note = otherDaemonNote({ SANDKEEP_URL: url }, dataDir);
  const sentence = `This works on the images in ${dataDir} of this host, not on those of the daemon at ${url}`;
  expect(note).toBe(isNoted ? sentence : undefined);
});

test("a directory that no daemon has used is not that of the settings", async () => {
  expect(otherDaemonNote({ SANDKEEP_URL: "http://127.0.0.1:7700" }, await tempDir())).toMatch(/^This works on/);
});
