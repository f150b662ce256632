/** Ends a test run with what was skipped and why, and then one line that people and machines can read. */

import type { Reporter, TestCase, TestModule } from "vitest/node";

export class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const skipped = tests.filter((test) => test.result().state === "skipped");
    const count: Count = {
      passed: tests.filter((test) => test.result().state === "passed").length,
      failed: tests.filter((test) => test.result().state === "failed").length + failuresOutsideTests(modules),
      skipped: skipped.length,
    };
    count.failed += unhandledErrors.length;
    const lines = [...skipped.map(skipLine), closingLine(count)].map((line) => `${line}\n`).join("");
    // At exit, so that nothing Vitest says while it closes comes after it.
    process.once("exit", () => process.stdout.write(lines));
  }
}

export interface Count {
  passed: number;
  failed: number;
  skipped: number;
}

export function closingLine({ passed, failed, skipped }: Count): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** files that failed without a failing test: they could not be loaded, or a hook threw */
function failuresOutsideTests(modules: readonly TestModule[]): number {
  return modules.filter((module) => {
    const tests = [...module.children.allTests()];
    return module.state() === "failed" && !tests.some((test) => test.result().state === "failed");
  }).length;
}

function skipLine(test: TestCase): string {
  const result = test.result();
  const reason = (result.state === "skipped" && result.note) || "no reason given";
  return `skipped: ${test.module.relativeModuleId}: ${test.fullName}: ${reason}`;
}
