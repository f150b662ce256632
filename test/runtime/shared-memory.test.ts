/** Memory that machines of the default image share: Node's program, of which each would otherwise read its own copy. */

import { expect, test } from "vitest";
import { bootFor } from "../conformance/runtime/host.ts";
import { sh } from "../conformance/runtime/run.ts";
import { linuxHost } from "../harness/linux-host.ts";

const host = linuxHost({ pool: { hot: 1, warm: 1 } });
const node = "/vercel/runtimes/node24/bin/node";

test("a new machine has Node's program in memory if another one has run it", async () => {
  const first = await bootFor(host());
  await sh(first, `${node} -e 1`);
  const second = await bootFor(host());
  const { stdout } = await sh(second, `fincore --bytes --noheadings --output RES,SIZE ${node}`);
  const [resident = 0, size = 0] = stdout.trim().split(/\s+/).map(Number);
  expect(size).toBeGreaterThan(50 << 20);
  expect(resident).toBeGreaterThan(10 << 20);
});

test("a machine's changes beside Node are its own, and are in its snapshot", async () => {
  const first = await bootFor(host());
  const second = await bootFor(host());
  const modules = "/vercel/runtimes/node24/lib/node_modules";
  await sh(first, `cd ${modules} && mkdir mine && rm -r corepack && echo changed >> npm/npmrc`);
  expect((await sh(first, `ls ${modules}; tail -n 1 ${modules}/npm/npmrc`)).stdout).toBe("mine\nnpm\npnpm\nchanged\n");
  expect((await sh(second, `ls ${modules}; grep -c changed ${modules}/npm/npmrc`)).stdout).toBe(
    "corepack\nnpm\npnpm\n0\n",
  );
  const { id: snapshot } = await first.snapshot();
  const resumed = await bootFor(host(), { root: { snapshot } });
  expect((await sh(resumed, `ls ${modules}; tail -n 1 ${modules}/npm/npmrc; ${node} -p 6*7`)).stdout).toBe(
    "mine\nnpm\npnpm\nchanged\n42\n",
  );
  expect((await sh(resumed, "ls / | grep sandkeep")).stdout).toBe("");
});
