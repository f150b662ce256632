/** Each lockfile must serve any host behind any registry, also where it was not written. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { root } from "../harness/harness.ts";

interface Package {
  version?: string;
  integrity?: string;
  resolved?: string;
  inBundle?: boolean;
  optionalDependencies?: Record<string, string>;
}

describe.each(["package-lock.json", "test/frameworks/package-lock.json"])("%s", (path) => {
  const packages: Record<string, Package> = JSON.parse(readFileSync(join(root, path), "utf8")).packages;

  test("has every optional package, also those for other hosts", () => {
    // `npm ci` refuses a lockfile without them. A registry that lacks some makes `npm install` write such a file.
    const wanted = Object.values(packages).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}));
    const locked = Object.keys(packages).map((name) => name.slice(name.lastIndexOf("node_modules/") + 13));
    expect(wanted.filter((name) => !locked.includes(name))).toEqual([]);
  });

  test("has a hash for every package", () => {
    const unsigned = Object.entries(packages).filter(
      ([name, { integrity, inBundle }]) => name && !integrity && !inBundle,
    );
    expect(unsigned.map(([name]) => name)).toEqual([]);
  });

  test("names no host", () => {
    const named = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined);
    expect(named.map(([name]) => name)).toEqual([]);
  });
});
