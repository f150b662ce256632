/** How the tests run: which files, how many at once, how long one may take, and what is printed at the end. */

import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/runner/order.ts";
import { ClosingLine } from "./test/runner/reporter.ts";
import { folders, testsOfOwnProcess, unitTests } from "./test/runner/tiers.ts";

// Under the host's own, older Node everything would fail with errors that say nothing.
if (Number.parseInt(process.versions.node, 10) < 24)
  throw new Error(`Cannot test on Node ${process.versions.node}: run "npm test" or "npx vitest", which use Node 24`);

// One tier each: npm run test:unit, npm run test:slow, and npm test, which is all but the slow ones.
const { UNIT, SLOW } = process.env;
const kind = SLOW ? "slow.test.ts" : "test.ts";
const units = SLOW ? [] : unitTests(import.meta.dirname);
const ownTier = (path: string) => path.endsWith(".slow.test.ts") === Boolean(SLOW) && !units.includes(path);
const alone = UNIT ? [] : testsOfOwnProcess(import.meta.dirname).filter(ownTier);

export default defineConfig({
  test: {
    environment: "node",
    globalSetup: "test/runner/run-folder.ts",
    // Few at a time. Most tests wait as much as they compute, so one more than the cores of a small machine keeps both
    // busy.
    pool: "forks",
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // Against hanging only, and therefore long: a busy host makes a test slow, not wrong.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ["default", new ClosingLine()],
    projects: [
      // Files of these two leave their process as it was, and share it with others: in a process each, they would take
      // 1.3 to 1.6 times the processor time.
      { extends: true, test: { name: "unit", include: units, isolate: false } },
      {
        extends: true,
        test: {
          name: "host",
          include: UNIT ? [] : folders.map((folder) => `${folder}/**/*.${kind}`),
          exclude: ["**/node_modules/**", ...units, ...alone, ...(SLOW ? [] : ["**/*.slow.test.ts"])],
          isolate: false,
        },
      },
      { extends: true, test: { name: "alone", include: alone } },
    ],
  },
});
