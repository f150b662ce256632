/**
 * Ends a test run with the number of skipped tests and their reasons, and then one line for people and programs. A test
 * that was skipped without a valid reason counts as failed.
 */

import { writeFileSync } from "node:fs";
import type { Reporter, TestCase, TestModule, Vitest } from "vitest/node";
import { excuses } from "./excuses.ts";

export class ClosingLine implements Reporter {
  #isFiltered = false;

  onInit(vitest: Vitest): void {
    // With -t Vitest skips every other test, as requested.
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
      ...inState("failed").flatMap(killedPrograms),
      ...unexcused.filter((test) => test.module.state() !== "failed").map(complaint),
      ...excuseLines(skipped.map(reasonOf)),
      closingLine(count),
    ];
    const { FAILED_FILES } = process.env;
    const isAttributed = unhandledErrors.length + unexcused.length === 0;
    if (FAILED_FILES && isAttributed) writeFileSync(FAILED_FILES, failedFiles(modules).join(""));
    // At exit, so that no output of Vitest follows it.
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

/** A line for each program that a signal ended, because the message of execFile() says nothing about that. */
function killedPrograms(test: TestCase): string[] {
  const signals = (test.result().errors ?? []).flatMap(({ signal }) => (typeof signal === "string" ? [signal] : []));
  return signals.map((signal) => `FAIL ${test.module.relativeModuleId}: ${test.fullName}: ended by ${signal}`);
}

/** the number of skipped tests for each valid reason */
function excuseLines(reasons: string[]): string[] {
  const excused = Map.groupBy(reasons.filter(excuses), (reason) => reason);
  return [...excused].map(([reason, { length }]) => `${length} skipped: ${reason}`);
}

/** Not called for a test of a failed file: Vitest itself has reported that. */
function complaint(test: TestCase): string {
  const reason = reasonOf(test) || "no reason given";
  const rule = "only a feature of the kernel, an unreachable registry or another browser is a reason";
  return `FAIL ${test.module.relativeModuleId}: ${test.fullName}: skipped (${reason}); ${rule}`;
}

/** A line for each failed file, for a program that runs these again. */
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
