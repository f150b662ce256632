/** Patterns for paths, against the cases that Docker documents. */

import { describe, expect, test } from "vitest";
import { ignoredBy, namePattern } from "./path-patterns.ts";

describe("an ignore file", () => {
  test("a line leaves out a path and everything below it", () => {
    const ignored = ignoredBy("# comment\n\n/node_modules/\n./dist/../build\n  temp?  \n");
    expect(
      ["node_modules", "node_modules/a/b", "build/x", "tempa", "temp1/x"].filter((path) => !ignored(path)),
    ).toEqual([]);
    expect(["a/node_modules", "dist", "temp", "tempab", "a/build"].filter(ignored)).toEqual([]);
  });

  test("two stars stand for any number of directories", () => {
    const ignored = ignoredBy("**/*.go\nlogs/**\n**/.cache\n**/in/[a-c]?");
    expect(["in/ax", "x/in/bx", "y/x/in/cx/z"].every(ignored)).toBe(true);
    expect(["in", "ax", "main/ax", "in/x/ax", "in/dx"].some(ignored)).toBe(false);
    expect(["a.go", "x/y/b.go", "logs/a/b", ".cache/x", "a/b/.cache"].every(ignored)).toBe(true);
    expect(["a.gox", "logs", "cache"].some(ignored)).toBe(false);
  });

  test("an exclamation mark takes back what earlier lines left out, and the last line that matches decides", () => {
    const ignored = ignoredBy("*.md\n!README*.md\nREADME-secret.md\ndocs\n!docs/keep\n");
    expect(["a.md", "README-secret.md", "docs/x", "docs/keeper"].every(ignored)).toBe(true);
    expect(["README.md", "docs/keep", "docs/keep/x", "sub/a.md"].some(ignored)).toBe(false);
    expect(ignoredBy("*\n!src")("src/a.c")).toBe(false);
    expect(ignoredBy("!src\n*")("src/a.c")).toBe(true);
  });

  test("a class without its end is named in the error", () => {
    expect(() => ignoredBy("a[b")).toThrow('the pattern "a[b" has a [ without its end');
    expect(() => ignoredBy("ab\\")).toThrow("ends in a backslash");
  });
});

test("classes and escapes match as in a shell, and never a slash unless they name it", () => {
  expect(ignoredBy("[a-c]?[^x]")("b1y")).toBe(true);
  expect(ignoredBy("a[^x]b")("a/b")).toBe(false);
  expect(ignoredBy("\\*[]]")("*]")).toBe(true);
  expect(ignoredBy("a*b")("a/b")).toBe(false);
  expect(namePattern("**.txt")("a.txt")).toBe(true);
});

test("paths that would take too long are refused", () => {
  const ignored = ignoredBy(`${"**/*a".repeat(60)}b\nx`, 10_000);
  expect(ignored("a/b")).toBe(false);
  expect(() => ignored("a/".repeat(2000))).toThrow("it takes too long to compare");
});

test("a hostile pattern takes no longer than its length times that of the path", () => {
  const pattern = namePattern(`${"**/*a".repeat(60)}b`);
  const begin = process.cpuUsage();
  expect(pattern("aa".repeat(2000))).toBe(false);
  expect(process.cpuUsage(begin).user / 1000).toBeLessThan(5000);
});

test("rules that match a directory above cost something for each path below it", () => {
  const ignored = ignoredBy("a\n".repeat(1000), 10_000);
  expect(() => {
    for (let count = 0; count < 100; count++) ignored(`a/${count}`);
  }).toThrow("it takes too long to compare");
  expect(() => ignoredBy("a\n".repeat(1001))).toThrow("there are more than 1000 rules");
});
