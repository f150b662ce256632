/** The owner of many idle machines, to be killed: boots the given number, reports that they run, and waits. */

import { runtimeAt } from "../test/harness/machine.ts";

const [dataDir = "", runRoot = "", count = "0"] = process.argv.slice(2);
const runtime = runtimeAt(dataDir, runRoot, { pool: { hot: 0, warm: 0 } });
await runtime.open();
for (let n = 1; n <= Number(count); n++) await runtime.boot({ id: `owned-${n}`, root: { image: "host" } });
process.stdout.write("ready\n");
await new Promise((resolve) => setTimeout(resolve, 2 ** 30));
