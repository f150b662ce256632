/**
 * The order of test files: the longest first. Vitest itself knows how long a file takes only where it ran before; on a
 * fresh clone it starts with large files, and a short one that tests for a minute may be the last, alone.
 */

import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** files that take over ten seconds of a busy machine, the longest first */
export const longest = [
  "test/e2e/faults/disk-full.test.ts",
  "test/guest/guest.test.ts",
  "test/conformance/store.test.ts",
  "test/e2e/faults/recover.test.ts",
  "test/e2e/daemon/installed.test.ts",
  "test/security/shared-limits.test.ts",
  "test/e2e/vercel/cli.test.ts",
  "test/e2e/faults/power-loss.test.ts",
  "test/e2e/egress/settings.test.ts",
  "test/e2e/faults/chaos.test.ts",
  "test/house/style.test.ts",
  "test/e2e/daemon/daemon.test.ts",
  "test/e2e/vercel/frameworks.test.ts",
  "test/e2e/faults/damage.test.ts",
  "test/e2e/e2b/templates.test.ts",
  "test/e2e/e2b/sandboxes.test.ts",
  "test/e2e/mcp/clients.test.ts",
  "test/e2e/faults/upgrade.test.ts",
  "test/runtime/broken-store.test.ts",
  "test/e2e/daemon/default-image.test.ts",
  "test/security/exhaustion.test.ts",
  "test/e2e/sandkeep/api.test.ts",
  "test/e2e/faults/postgres.test.ts",
  "test/e2e/e2b/envd-wire.test.ts",
  "test/e2e/daemon/scopes.test.ts",
  "test/e2e/e2b/python.test.ts",
  "test/e2e/vercel/python.test.ts",
  "test/runtime/life.test.ts",
  "test/runtime/lost-launcher.test.ts",
  "test/runtime/storage.test.ts",
  "test/runtime/kernels.test.ts",
  "src/api/vercel/schemas.test.ts",
  "test/runner/reporter.test.ts",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config;
    const place = ({ moduleId }: TestSpecification) => {
      const index = longest.indexOf(relative(root, moduleId));
      return index < 0 ? longest.length : index;
    };
    return (await super.sort(files)).toSorted((a, b) => place(a) - place(b));
  }
}
