/**
 * A daemon to be killed: opens the runtime on the given directories, boots machines, starts commands on them, prints
 * one line of JSON about them, and waits. The tests end it with SIGKILL.
 */

import { runtimeAt } from "../harness/machine.ts";

export interface Owned {
  machines: { id: string; counter: string; reader: string; done: string }[];
}

const [dataDir = "", runRoot = "", count = "1", booting = "0"] = process.argv.slice(2);
const runtime = runtimeAt(dataDir, runRoot, { pool: { hot: 1, warm: 1 } });
await runtime.open();
await runtime.ready();
const owned: Owned = { machines: [] };
for (let n = 0; n < Number(count); n++) {
  const machine = await runtime.boot({ id: `owned-${process.pid}-${n}`, root: { image: "host" } });
  const script = "i=0; while :; do echo $i; echo e$i >&2; i=$((i+1)); sleep 0.002; done";
  const counter = await machine.exec({ id: "counter", argv: ["sh", "-c", script] });
  const reader = await machine.exec({ id: "reader", argv: ["cat"], stdin: true });
  const done = await machine.exec({ id: "done", argv: ["sh", "-c", "echo finished; exit 6"] });
  await reader.write(Buffer.from("written before "));
  await done.exited;
  owned.machines.push({ id: machine.id, counter: counter.id, reader: reader.id, done: done.id });
}
process.stdout.write(`${JSON.stringify(owned)}\n`);
if (booting === "booting") {
  // keeps making and stopping machines, so that the kill hits some half made and some half gone
  const worker = async (n: number) => {
    for (let turn = 0; ; turn++) {
      const machine = await runtime.boot({ id: `churn-${n}-${turn}`, root: { image: "host" } });
      await machine.stop({ snapshot: turn % 2 === 0 });
    }
  };
  await Promise.all([0, 1, 2, 3].map(worker));
}
await new Promise((resolve) => setTimeout(resolve, 2 ** 30));
