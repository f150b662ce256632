/** Reaches a server in another network namespace from this process. */

import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { ended, linesOf, type Namespace } from "../../internet/internet.ts";
import { tempDir, type Undo } from "../harness.ts";

/** an address in this process's network that leads to a port of the namespace's loopback, through a socket file */
export async function bridge(undo: Undo, namespace: Namespace, port: number): Promise<string> {
  const path = join(await tempDir(undo), "bridge.sock");
  const script = `require("node:net").createServer((from) => {
    const to = require("node:net").connect(${port}, "127.0.0.1");
    from.pipe(to).pipe(from);
    for (const end of [from, to]) end.on("error", () => { from.destroy(); to.destroy(); });
  }).listen(${JSON.stringify(path)}, () => console.log("ready"))`;
  const far = spawn(...namespace.command(process.execPath, "-e", script), { stdio: ["pipe", "pipe", "inherit"] });
  undo.defer(() => ended(far));
  await linesOf(far)();
  const near = createServer((from) => {
    const to = connect(path);
    from.pipe(to).pipe(from);
    for (const end of [from, to]) {
      end.on("error", () => {
        from.destroy();
        to.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => near.listen(0, "127.0.0.1", resolve));
  undo.defer(async () => void near.close());
  const address = near.address();
  if (address === null || typeof address === "string") throw new Error("The bridge has no port");
  return `http://127.0.0.1:${address.port}`;
}
