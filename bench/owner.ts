/** The owner of many idle machines, to be killed: boots as many as it is told, says that they are there, and waits. */

import { join } from "node:path";
import { LinuxRuntime } from "../src/runtime/linux/driver.ts";
import { guestBinary, root } from "../test/harness.ts";

const [dataDir = "", runRoot = "", count = "0"] = process.argv.slice(2);
const runtime = new LinuxRuntime({
  dataDir,
  runRoot,
  guest: guestBinary,
  egress: [process.execPath, join(root, "src/egress/main.ts")],
  pool: { hot: 0, warm: 0 },
});
await runtime.open();
for (let n = 1; n <= Number(count); n++) await runtime.boot({ id: `owned-${n}`, root: { image: "host" } });
process.stdout.write("ready\n");
await new Promise((resolve) => setTimeout(resolve, 2 ** 30));
