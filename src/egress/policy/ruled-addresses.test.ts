/** What is known of the addresses of hosts with rules. */

import { expect, test } from "vitest";
import { newNames } from "./names.ts";
import { namesLeadingTo, newRuledAddresses } from "./ruled-addresses.ts";

test("a host is looked up before the first decision, and then in the background, at most once a minute", async () => {
  let now = 0;
  const asked: string[] = [];
  const ruled = newRuledAddresses(() => now);
  const lookUp = async (name: string) => {
    asked.push(name);
    return [asked.length === 1 ? "93.184.216.34" : "93.184.216.35"];
  };
  await Promise.all([ruled.learn(["api.test"], lookUp), ruled.learn(["api.test"], lookUp)]);
  expect(ruled.namesOf("93.184.216.34")).toEqual(["api.test"]);
  now = 59_000;
  await ruled.learn(["api.test"], lookUp);
  expect(asked).toEqual(["api.test"]);
  now = 61_000;
  await ruled.learn(["api.test"], () => new Promise(() => {}));
  now = 122_000;
  await ruled.learn(["api.test"], lookUp);
  await Promise.resolve();
  await Promise.resolve();
  expect(asked).toEqual(["api.test", "api.test"]);
  // An earlier address stays for an hour.
  expect(["93.184.216.34", "93.184.216.35"].flatMap((each) => ruled.namesOf(each))).toEqual(["api.test", "api.test"]);
  now += 60 * 60_000;
  expect(ruled.namesOf("93.184.216.34")).toEqual([]);
});

test("a lookup that fails is repeated soon, and keeps what was known", async () => {
  let now = 0;
  const ruled = newRuledAddresses(() => now);
  await ruled.learn(["api.test"], async () => Promise.reject(new Error("no resolver")));
  expect(ruled.namesOf("93.184.216.34")).toEqual([]);
  now = 5_000;
  await ruled.learn(["api.test"], async () => ["93.184.216.34"]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(ruled.namesOf("93.184.216.34")).toEqual(["api.test"]);
});

test("an address that stands for another has its names too", async () => {
  const names = newNames(() => 0);
  const ruled = newRuledAddresses(() => 0);
  await ruled.learn(["api.test"], async () => ["93.184.216.34"]);
  names.remember("www.test", "93.184.216.34", 60);
  expect(namesLeadingTo("64:ff9b::5db8:d822", { names, ruled })).toEqual(["www.test", "api.test"]);
});
