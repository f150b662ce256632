/** Templates over a real store; nothing is built here. */

import { expect, onTestFinished, test } from "vitest";
import { newOwner } from "../../../test/conformance/store/host.ts";
import { eventually } from "../../../test/harness/harness.ts";
import { openStore } from "../../store/sql-store.ts";
import type { BuildProgress, Builds } from "../builds/builds.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import { idsFrom } from "../model/ids.ts";
import { templateImage } from "../model/template.ts";
import type { Recipe } from "./template-runs.ts";
import { Templates } from "./templates.ts";

const recipe: Recipe = { images: [], prelude: 1, plan: () => ({ stages: [], target: 0, notes: [] }) };

/** `events`: what each build reports before it ends */
async function made(events: () => AsyncGenerator<BuildProgress>) {
  const store = await openStore({ path: ":memory:" });
  onTestFinished(() => store.close());
  const images = {
    names: new Set<string>(),
    list: async () => [...images.names].map((name) => ({ name, owner: "team" })),
    delete: async (key: string) => void images.names.delete(key.replace("~team~", "")),
  };
  const ids = idsFrom((count) => crypto.getRandomValues(new Uint8Array(count)));
  const limits = { defaultVcpus: 2 };
  const context = { store, ids, limits, runtime: { images }, now: Date.now, logError: () => undefined };
  // Templates use only these parts.
  const builds = { build: async () => events() } as unknown as Builds;
  const templates = new Templates(context as unknown as Context, builds);
  return { store, templates, images, owner: await newOwner(store), other: await newOwner(store) };
}

async function* fine(): AsyncGenerator<BuildProgress> {
  yield { type: "pulling", image: "app:1", received: 2_500_000, total: 10_000_000 };
  yield { type: "step", stage: "s", index: 1, total: 2, text: "WORKDIR /home/user" };
  yield { type: "step", stage: "s", index: 2, total: 2, text: "RUN true" };
  yield { type: "output", stream: "stdout", text: "one\ntw" };
  yield { type: "output", stream: "stderr", text: "bad\n" };
  yield { type: "output", stream: "stdout", text: "o\nthree" };
  yield { type: "done", took: 1 };
}

async function* broken(): AsyncGenerator<BuildProgress> {
  yield { type: "step", stage: "s", index: 2, total: 2, text: "RUN false" };
  throw new SandkeepError("invalid", "it ended with exit code 1");
}

test("a build that is ready has its tags and the lines that it printed, each whole", async () => {
  const { templates, owner, other } = await made(fine);
  const { template, build } = await templates.request(owner, { name: "Mine:V1", tags: ["b"] });
  expect([template.name, build.tags, build.memory]).toEqual(["mine", ["v1", "b"], 4096]);
  await templates.start(owner, template.id, build.id, recipe);
  await templates.close();
  await expect(templates.start(owner, template.id, build.id, recipe)).rejects.toMatchObject({ code: "conflict" });
  const query = { buildId: build.id, level: "info", order: "asc", limit: 99 } as const;
  const { build: ready, lines } = await templates.log(owner, template.id, query);
  expect(ready.state).toBe("ready");
  expect(lines.map(({ level, message, step }) => `${level} ${message} ${step}`)).toEqual([
    "info Pulling app:1: 2.5 of 10.0 MB 0",
    "info [1/1] RUN true 1",
    "info one 1",
    "warn bad 1",
    "info two 1",
    "info three 1",
  ]);
  expect(await templates.use(owner, "mine:b", { counts: true })).toMatchObject({ build: { id: build.id } });
  expect(await templates.get(owner, template.id)).toMatchObject({ spawns: 1 });
  await expect(templates.use(owner, "mine")).rejects.toMatchObject({ code: "not-found" });
  for (const name of ["mine:b", template.id]) expect(await templates.use(other, name)).toBeUndefined();
  await expect(templates.log(other, template.id, query)).rejects.toMatchObject({ code: "not-found" });
});

test("a public template is found by other teams under its team's name, and only its own team changes it", async () => {
  const { templates, store, owner, other } = await made(fine);
  const { template, build } = await templates.request(owner, { name: "shared" });
  await templates.start(owner, template.id, build.id, recipe);
  await templates.close();
  const slug = (await store.findTeam(owner.teamId))?.slug;
  await templates.publish(owner, "shared", true);
  expect(await templates.use(other, `${slug}/shared`)).toMatchObject({ image: { owner: owner.teamId } });
  expect(await templates.use(other, "shared")).toBeUndefined();
  for (const change of [
    () => templates.delete(other, `${slug}/shared`),
    () => templates.publish(other, template.id, false),
    () => templates.assignTags(other, `${slug}/shared`, ["x"]),
  ]) {
    await expect(change()).rejects.toMatchObject({ code: "not-found" });
  }
});

test("a build that fails has its reason and step, and the daemon's next start ends those under way", async () => {
  const { templates, store, owner } = await made(broken);
  const { template, build } = await templates.request(owner, { name: "mine" });
  await templates.start(owner, template.id, build.id, recipe);
  await templates.close();
  const reason = { message: "it ended with exit code 1", step: 1 };
  expect(await templates.build(owner, template.id, build.id)).toMatchObject({ state: "failed", reason });
  const { build: next } = await templates.request(owner, { name: "mine" });
  await store.moveTemplateBuild(next.id, ["waiting"], "building", {});
  await templates.open();
  expect(await templates.build(owner, template.id, next.id)).toMatchObject({
    state: "failed",
    reason: { message: expect.stringContaining("daemon") },
  });
});

test.each(["the change", "the answer"])("a build is ready though the database lost %s at its end", async (what) => {
  const { templates, store, images, owner } = await made(fine);
  const { template, build } = await templates.request(owner, { name: "mine" });
  images.names.add(templateImage(build));
  const { finishTemplateBuild } = store;
  let losses = 1;
  store.finishTemplateBuild = async (...args) => {
    const isLost = losses-- > 0;
    const finished = what === "the answer" || !isLost ? await finishTemplateBuild(...args) : undefined;
    if (isLost) throw new SandkeepError("unavailable", "The database is away");
    return finished;
  };
  await templates.start(owner, template.id, build.id, recipe);
  await eventually("the build is ready", async () => {
    return losses < 0 && (await templates.build(owner, template.id, build.id)).state === "ready";
  });
  expect([...images.names]).toEqual([templateImage(build)]);
  await templates.close();
});

test("the image of a build that failed after it was made is deleted, also by the next start", async () => {
  const { templates, store, images, owner } = await made(broken);
  const { template, build } = await templates.request(owner, { name: "mine" });
  images.names.add(templateImage(build));
  await templates.start(owner, template.id, build.id, recipe);
  await templates.close();
  expect([...images.names]).toEqual([]);
  const { build: next } = await templates.request(owner, { name: "mine" });
  images.names.add(templateImage(next));
  await store.moveTemplateBuild(next.id, ["waiting"], "building", {});
  await templates.open();
  expect([...images.names]).toEqual([]);
});

test("a build that prints 20,000 lines at once has all of them in its log", async () => {
  const printed = Array.from({ length: 20_000 }, (_, n) => `${n}\n`).join("");
  const { templates, owner } = await made(async function* () {
    yield { type: "output", stream: "stdout", text: printed };
  });
  const { template, build } = await templates.request(owner, { name: "mine" });
  await templates.start(owner, template.id, build.id, recipe);
  await templates.close();
  const query = { buildId: build.id, level: "info", order: "desc", limit: 1 } as const;
  const { build: ready, lines } = await templates.log(owner, template.id, query);
  expect([ready.state, lines[0]?.message]).toEqual(["ready", "19999"]);
});

test("a log keeps so much, says that it is full, and has the outcome", async () => {
  const { templates, owner } = await made(async function* () {
    yield { type: "step", stage: "s", index: 2, total: 2, text: "RUN yes" };
    yield { type: "output", stream: "stdout", text: "y\n".repeat(30_000) };
    yield { type: "output", stream: "stdout", text: "y\n".repeat(30_000) };
    throw new SandkeepError("invalid", "it ended with exit code 1");
  });
  const { template, build } = await templates.request(owner, { name: "loud" });
  await templates.start(owner, template.id, build.id, recipe);
  await templates.close();
  const query = { buildId: build.id, level: "debug", order: "desc", limit: 3 } as const;
  const { lines } = await templates.log(owner, template.id, query);
  expect(lines.map(({ message }) => message)).toEqual([
    "it ended with exit code 1",
    expect.stringContaining("The log is full"),
    "y",
  ]);
});

test("a build that becomes ready while unnamed ones are looked for keeps its image", async () => {
  const { templates, store, images, owner } = await made(fine);
  const [first, second] = [await requested("one"), await requested("two")];
  const { templateBuilds, templateTags } = store;
  // The second one ends between the two questions after the end of the first, whichever of them comes first.
  let isBetween = false;
  const between = async <T>(answer: Promise<T>): Promise<T> => {
    const found = await answer;
    if (isBetween) await store.finishTemplateBuild(second.id, 1);
    isBetween = false;
    return found;
  };
  store.templateTags = (id) => between(templateTags(id));
  store.templateBuilds = (id, limit) => between(templateBuilds(id, limit));
  await store.moveTemplateBuild(second.id, ["waiting"], "building", { updatedAt: 1 });
  isBetween = true;
  await templates.start(owner, first.templateId, first.id, recipe);
  await templates.close();
  expect((await store.getTemplateBuild(second.id))?.state).toBe("ready");
  expect([...images.names].sort()).toEqual([templateImage(first), templateImage(second)].sort());

  async function requested(tag: string) {
    const { build } = await templates.request(owner, { name: `mine:${tag}` });
    images.names.add(templateImage(build));
    return build;
  }
});

test("a team has few builds under way, and a template forgets old builds that no tag names", async () => {
  const { promise: end, resolve } = Promise.withResolvers<void>();
  const { templates, store, owner, other } = await made(async function* () {
    await end;
    yield { type: "done", took: 1 };
  });
  const begin = async (of: typeof owner) => {
    const { template, build } = await templates.request(of, { name: "many" });
    await templates.start(of, template.id, build.id, recipe);
    return { template, build };
  };
  const all = await Promise.allSettled(Array.from({ length: 25 }, () => begin(owner)));
  expect(all.filter(({ status }) => status === "fulfilled")).toHaveLength(20);
  expect(all.find(({ status }) => status === "rejected")).toMatchObject({ reason: { code: "limit" } });
  await begin(other);
  resolve();
  await templates.close();
  const { template, build: tagged } = await begin(owner);
  await templates.close();
  for (let at = 0; at < 60; at++) await templates.request(owner, { name: "many" });
  expect(await store.countTemplateBuilds(template.id)).toBe(52);
  expect(await templates.use(owner, "many")).toMatchObject({ build: { id: tagged.id } });
});

test("an id stands for its template, whatever others are called", async () => {
  const { templates, owner, other } = await made(fine);
  const { template } = await templates.request(owner, { name: "first" });
  for (const team of [owner, other]) await templates.request(team, { name: template.id });
  expect(await templates.get(owner, template.id)).toMatchObject({ name: "first" });
  expect(await templates.get(other, template.id)).toMatchObject({ name: template.id });
});

test.each([
  "",
  "a b",
  "\u212Aelvin",
  "a/",
  "a:",
  "a:b:c",
  "ä",
  `${"a".repeat(129)}`,
  "a:00000000-0000-4000-8000-000000000000",
])("%j names no new template", async (name) => {
  const { templates, owner } = await made(fine);
  await expect(templates.request(owner, { name })).rejects.toMatchObject({ code: "invalid" });
});

test("the name of a new template may have its own team before it, and no other", async () => {
  const { templates, store, owner, other } = await made(fine);
  const slugOf = async ({ teamId }: typeof owner) => (await store.findTeam(teamId))?.slug;
  const own = await templates.request(owner, { name: `${(await slugOf(owner))?.toUpperCase()}/a:b` });
  expect([own.template.name, own.build.tags]).toEqual(["a", ["b"]]);
  for (const slug of [await slugOf(other), "none"]) {
    await expect(templates.request(owner, { name: `${slug}/a` })).rejects.toMatchObject({ code: "forbidden" });
  }
});

test("the builds of a template come in pages, the newest first, which end with the last one", async () => {
  const { templates, owner } = await made(fine);
  for (let n = 0; n < 4; n++) await templates.request(owner, { name: "a" });
  const all = (await templates.builds(owner, "a", { limit: 9 })).builds.map(({ id }) => id);
  const first = await templates.builds(owner, "a", { limit: 2 });
  const second = await templates.builds(owner, "a", { limit: 2, cursor: first.next ?? "" });
  expect([...first.builds, ...second.builds].map(({ id }) => id)).toEqual(all);
  expect([all.length, second.next]).toEqual([4, undefined]);
  await expect(templates.builds(owner, "a", { limit: 2, cursor: "x" })).rejects.toMatchObject({ code: "invalid" });
});
