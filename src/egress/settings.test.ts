/** What the egress process makes of its settings, and how long it believes what the host said. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import { vercelConventions } from "../api/vercel/conventions.ts";
import { noEgressSettings } from "../core/ports/egress-settings.ts";
import { newSettings, settingsIn } from "./settings.ts";

const now = () => 0;

test("nothing set means the host's resolvers and no exception", () => {
  const settings = newSettings(settingsIn(undefined), now);
  expect(settings.addresses.forbidden("10.0.0.1")).toContain("private");
  expect(settings.resolvers().every(({ port }) => port > 0)).toBe(true);
  expect(settings.roots()).toEqual([]);
});

test("names of headers are as the daemon gives them, and a daemon need not give any", async () => {
  const file = join(await tempDir(), "settings.json");
  await writeFile(file, JSON.stringify(noEgressSettings));
  const settings = newSettings(settingsIn(file), now);
  expect(settings.forwardHeaders()).toBeUndefined();
  const { forwardHeaders } = vercelConventions;
  settings.use({ ...noEgressSettings, forwardHeaders });
  expect(settings.forwardHeaders()).toEqual(forwardHeaders);
  await writeFile(file, JSON.stringify({ ...noEgressSettings, forwardHeaders }));
  expect(settingsIn(file).forwardHeaders).toEqual(forwardHeaders);
});

test("what the last daemon left is read, and what the next one gives takes its place at once", async () => {
  const file = join(await tempDir(), "settings.json");
  const left = { allow: ["10.0.0.0/8"], deny: ["93.184.216.34"], resolvers: ["1.1.1.1", "[::1]:5353"], roots: ["pem"] };
  await writeFile(file, JSON.stringify(left));
  const settings = newSettings(settingsIn(file), now);
  const { addresses, resolvers } = settings;
  expect(addresses.forbidden("10.0.0.1")).toBeUndefined();
  expect(addresses.forbidden("93.184.216.34")).toContain("denied");
  expect(resolvers()).toEqual([
    { address: "1.1.1.1", port: 53 },
    { address: "::1", port: 5353 },
  ]);
  settings.use({ ...noEgressSettings, resolvers: ["2.2.2.2"] });
  expect(addresses.forbidden("10.0.0.1")).toContain("private");
  expect(addresses.forbidden("93.184.216.34")).toBeUndefined();
  expect(resolvers()).toEqual([{ address: "2.2.2.2", port: 53 }]);
});

test("settings that cannot be used change nothing", () => {
  const settings = newSettings({ ...noEgressSettings, resolvers: ["1.1.1.1"] }, now);
  const wrong = { ...noEgressSettings, deny: ["93.184.216.34"], resolvers: ["dns.test"] };
  expect(() => settings.use(wrong)).toThrow('Cannot use the resolver "dns.test"');
  expect(settings.resolvers()).toEqual([{ address: "1.1.1.1", port: 53 }]);
  expect(settings.addresses.forbidden("93.184.216.34")).toBeUndefined();
});

test("the list of certificates is another one only where it has changed", () => {
  const settings = newSettings({ ...noEgressSettings, roots: ["one"] }, now);
  const before = settings.roots();
  settings.use({ ...noEgressSettings, roots: ["one"] });
  expect(settings.roots()).toBe(before);
  settings.use({ ...noEgressSettings, roots: ["two"] });
  expect(settings.roots()).toEqual(["two"]);
});

test("the host's addresses are read again after a second", () => {
  let time = 0;
  const { addresses } = newSettings(noEgressSettings, () => time);
  const asked = () => addresses.forbidden("127.0.0.1");
  expect(asked()).toContain("the host's own");
  time = 1_000;
  expect(asked()).toContain("the host's own");
});
