/** What builds and exports keep while clients are slow or gone: few files of each team, and no turn for ever. */

import { Readable } from "node:stream";
import { afterEach, expect, test, vi } from "vitest";
import type { Context } from "../context.ts";
import type { Owner } from "../model/sandbox.ts";
import type { BuildContext } from "../ports/image-builds.ts";
import type { Images } from "../ports/images.ts";
import { type BuildPlan, emptySettings } from "./build-plan.ts";
import { Builds } from "./builds.ts";

afterEach(() => void vi.useRealTimers());

const owner: Owner = { teamId: "team_a", projectId: "project" };
const other: Owner = { teamId: "team_b", projectId: "project" };

/** a runtime that keeps nothing: only what is refused, and when it ends, matters here */
function builds(registry: Partial<Pick<Images, "pull">> = {}): Builds {
  const image = { name: "made", owner: "team_a", layers: [] };
  const imageBuilds = {
    receive: async (_: unknown, closed: () => void) => ({ close: async () => closed() }) as BuildContext,
    export: async (_: string, signal: AbortSignal) => {
      signal.throwIfAborted();
      return Readable.from(["bytes"]);
    },
    scratch: async () => "scratch",
    keepUpload: async (_: string, tar: AsyncIterable<Uint8Array>) => void (await Array.fromAsync(tar)),
  };
  const here = { get: async () => (registry.pull ? undefined : image), list: async () => [], ...registry };
  const runtime = { requireRoom: () => undefined, images: here, imageBuilds };
  const limits = { defaultVcpus: 1, buildCacheRetention: 0 };
  // Builds use only these parts of it.
  const pullPolicy = "missing";
  const context = { runtime, limits, now: Date.now, logError: () => undefined, pullPolicy } as unknown as Context;
  return new Builds(context, { withImageDisk: (_team, _bytes, make) => make() });
}

/** a plan without steps, whose output is longer than what may wait for a slow caller */
function talkative(): BuildPlan {
  const settings = emptySettings();
  const notes = Array.from({ length: 1000 }, () => "note");
  return { stages: [{ name: "0", base: "scratch", steps: [], settings }], target: 0, notes };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

test("a team has few contexts at a time, and none is read beyond that", async () => {
  const all = builds();
  const contexts = await Promise.all([1, 2, 3, 4].map(() => all.receive(owner, nothing())));
  await expect(all.receive(owner, nothing())).rejects.toMatchObject({ code: "limit" });
  await (await all.receive(other, nothing())).close();
  await contexts[0]?.close();
  await (await all.receive(owner, nothing())).close();
});

test("uploads of a team wait for their turn, unless their client leaves, and those that stand still end", async () => {
  vi.useFakeTimers();
  const all = builds();
  const silent = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from("begun");
    await new Promise(() => undefined);
  };
  const stuck = [1, 2, 3, 4].map((name) => all.keepUpload(owner, String(name), silent()).catch((error) => error.code));
  const left = new AbortController();
  const gone = all.keepUpload(owner, "gone", nothing(), left.signal).catch((error) => error.code);
  const next = all.keepUpload(owner, "next", nothing());
  await all.keepUpload(other, "other", nothing());
  left.abort("a sentence");
  expect(await gone).toBe("gone");
  await vi.advanceTimersByTimeAsync(61_000);
  expect(await Promise.all(stuck)).toEqual(["timeout", "timeout", "timeout", "timeout"]);
  await next;
});

test("a team has few exports at a time, and one that is left makes room", async () => {
  const all = builds();
  const [first] = await Promise.all([1, 2].map(() => all.export(owner, "made")));
  await expect(all.export(owner, "made")).rejects.toMatchObject({ code: "limit" });
  first?.destroy();
  await expect.poll(() => first?.closed).toBe(true);
  const gone = AbortSignal.abort("a sentence");
  await expect(all.export(owner, "made", gone)).rejects.toMatchObject({ code: "gone" });
  await all.export(owner, "made");
});

test("clients that read nothing keep their turns only as long as a build may take", async () => {
  vi.useFakeTimers();
  const all = builds();
  const spec = { images: [], plan: talkative, timeout: 1000 };
  const stuck = await Promise.all([1, 2, 3, 4].map(() => all.build(owner, spec)));
  for (const lines of stuck) expect(await lines.next()).toMatchObject({ value: { type: "note" } });
  const next = await all.build(other, spec);
  expect(await next.next()).toMatchObject({ value: { type: "waiting" } });
  const noted = next.next();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await noted).toMatchObject({ value: { type: "note" } });
  await expect(Array.fromAsync(stuck[0] ?? [])).rejects.toMatchObject({ code: "timeout" });
  await next.return(undefined);
  for (const lines of stuck) await lines.return(undefined);
});

test("a build that waits for its turn closes its context as soon as its client leaves, and closing ends all", async () => {
  const all = builds();
  const spec = { images: [], plan: talkative };
  const stuck = await Promise.all([1, 2, 3, 4].map(() => all.build(owner, spec)));
  for (const lines of stuck) await lines.next();
  const close = vi.fn(async () => undefined);
  // Nothing else of it is used.
  const context = { close } as unknown as BuildContext;
  const left = new AbortController();
  const waiting = await all.build(other, { ...spec, context, signal: left.signal });
  await waiting.next();
  left.abort(new Error("it left"));
  await expect(waiting.next()).rejects.toThrow("it left");
  expect(close).toHaveBeenCalledOnce();
  await all.close();
});

test("a build says how much of its base has arrived, and ends at once if its client leaves meanwhile", async () => {
  const gate = Promise.withResolvers<void>();
  const all = builds({
    async pull(_name, _team, { progress } = {}) {
      for (let received = 0; received <= 500; received++) progress?.({ received, total: 1000 });
      await gate.promise;
      return undefined;
    },
  });
  const lines = await all.build(owner, { images: ["far:1"], plan: talkative });
  const heard = [];
  for (let count = 0; count < 6; count++) heard.push((await lines.next()).value);
  expect(heard.map((line) => (line?.type === "pulling" ? `${line.image} ${line.received}` : line))).toEqual([
    "far:1 0",
    "far:1 100",
    "far:1 200",
    "far:1 300",
    "far:1 400",
    "far:1 500",
  ]);
  // The pull is still waiting.
  await lines.return(undefined);
  gate.resolve();
});
