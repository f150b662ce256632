/**
 * Ends a test run with how many tests were skipped and why, and then one line that people and machines can read. A test
 * that was skipped without a good reason counts as failed.
 */

import { writeFileSync } from "node:fs";
import type { Reporter, TestCase, TestModule, Vitest } from "vitest/node";
import { excuses } from "./excuses.ts";

export class ClosingLine implements Reporter {
  #isFiltered = false;

  onInit(vitest: Vitest): void {
    // With -t Vitest skips every other test, which is what was asked for.
    this.#isFiltered = vitest.config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const inState = (state: string) => tests.filter((test) => test.result().state === state);
    const skipped = inState("skipped");
    const unexcused = skipped.filter((test) => !this.#isFiltered && !excuses(reasonOf(test)));
    const count: Count = {
      passed: inState("passed").length,
      failed: inState("failed").length + failuresOutsideTests(modules) + unhandledErrors.length + unexcused.length,
      skipped: skipped.length - unexcused.length,
    };
    const lines = [
      ...unexcused.filter((test) => test.module.state() !== "failed").map(complaint),
      ...excuseLines(skipped.map(reasonOf)),
      closingLine(count),
    ];
    const { FAILED_FILES } = process.env;
    const isAttributed = unhandledErrors.length + unexcused.length === 0;
    if (FAILED_FILES && isAttributed) writeFileSync(FAILED_FILES, failedFiles(modules).join(""));
    // At exit, so that nothing Vitest says while it closes comes after it.
    process.once("exit", () => {
      process.stdout.write(lines.map((line) => `${line}\n`).join(""));
      if (unexcused.length > 0) process.exitCode = 1;
    });
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

/** how many tests were skipped for each reason that excuses it */
function excuseLines(reasons: string[]): string[] {
  const excused = Map.groupBy(reasons.filter(excuses), (reason) => reason);
  return [...excused].map(([reason, { length }]) => `${length} skipped: ${reason}`);
}

/** Of a file that failed Vitest has said so itself: the hook of its tests threw. */
function complaint(test: TestCase): string {
  const reason = reasonOf(test) || "no reason given";
  const rule = "only a feature of the kernel or an unreachable registry is a reason";
  return `FAIL ${test.module.relativeModuleId}: ${test.fullName}: skipped (${reason}); ${rule}`;
}

/** A line for each file that failed, for a program that runs these again. */
function failedFiles(modules: readonly TestModule[]): string[] {
  return modules.filter((module) => module.state() === "failed").map((module) => `${module.relativeModuleId}\n`);
}

/** files that failed without a failing test: they could not be loaded, or a hook threw */
function failuresOutsideTests(modules: readonly TestModule[]): number {
  return modules.filter((module) => {
    const tests = [...module.children.allTests()];
    return module.state() === "failed" && !tests.some((test) => test.result().state === "failed");
  }).length;
}

function reasonOf(test: TestCase): string {
  const result = test.result();
  return (result.state === "skipped" && result.note) || "";
}
