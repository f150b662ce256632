/** Tests of work that runs once at a time for each key. */

import { expect, test } from "vitest";
import { SingleFlight } from "./single-flight.ts";

test("who asks while the work runs gets the same result, and the work runs once", async () => {
  const flights = new SingleFlight<number>();
  const { promise, resolve } = Promise.withResolvers<void>();
  let runs = 0;
  const work = async () => {
    await promise;
    return ++runs;
  };
  const results = [flights.run("a", work), flights.run("a", work)];
  expect(flights.keys()).toEqual(["a"]);
  resolve();
  expect(await Promise.all(results)).toEqual([1, 1]);
  expect(flights.has("a")).toBe(false);
  expect(await flights.run("a", work)).toBe(2);
});

test("work for one key does not wait for work for another", async () => {
  const flights = new SingleFlight<string>();
  void flights.run("slow", () => new Promise(() => undefined));
  expect(await flights.run("fast", async () => "done")).toBe("done");
});

test("a failure reaches everyone who asked, and the next one begins anew", async () => {
  const flights = new SingleFlight<string>();
  const fail = async () => {
    throw new Error("no");
  };
  const results = await Promise.allSettled([flights.run("a", fail), flights.run("a", fail), flights.settled("a")]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"]);
  expect(await flights.run("a", async () => "again")).toBe("again");
});

test("work that takes the place of another is the one that others get, also after the other has ended", async () => {
  const flights = new SingleFlight<string>();
  const first = Promise.withResolvers<string>();
  const second = Promise.withResolvers<string>();
  const started = flights.start("a", () => first.promise);
  void flights.start("a", () => second.promise);
  first.resolve("first");
  await started;
  second.resolve("second");
  expect(await flights.get("a")).toBe("second");
});
