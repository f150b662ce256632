/** Templates with their builds, tags and logs, and secrets: by team, and in states that one caller moves. */

import { describe, expect, test } from "vitest";
import type { Secret } from "../../../src/core/model/secret.ts";
import type { Template, TemplateBuild } from "../../../src/core/model/template.ts";
import { newOwner, newSandbox, noon, type StoreHost, unique } from "./host.ts";

function templateOf(teamId: string, fields: Partial<Template> = {}): Template {
  const times = { createdAt: noon, updatedAt: noon };
  return { id: unique("t"), teamId, name: unique("name-"), isPublic: false, ...times, spawns: 0, ...fields };
}

function buildOf(templateId: string, fields: Partial<TemplateBuild> = {}): TemplateBuild {
  const times = { createdAt: noon, updatedAt: noon };
  const build = { id: unique("build-"), templateId, tags: ["a"], vcpus: 2, memory: 512 };
  return { ...build, state: "building", ...times, ...fields };
}

export function templatesSuite(host: () => StoreHost): void {
  describe("templates", () => {
    test("every field comes back, of its team only, and a name is unique within a team", async () => {
      const { store } = host();
      const [{ teamId }, other] = [await newOwner(store), await newOwner(store)];
      const template = templateOf(teamId, { name: "mine", isPublic: true, lastSpawnedAt: noon });
      await store.insertTemplate(template);
      await expect(store.insertTemplate(templateOf(teamId, { name: "mine" }))).rejects.toMatchObject({
        code: "exists",
      });
      await store.insertTemplate(templateOf(other.teamId, { name: "mine" }));
      expect(await store.findTemplate(teamId, "mine")).toStrictEqual(template);
      const build = buildOf(template.id, { reason: { message: "why", step: 2 }, finishedAt: noon + 1 });
      await store.insertTemplateBuild(build);
      expect(await store.getTemplateBuild(build.id)).toStrictEqual(build);
      await store.addTemplateSpawn(template.id, noon + 5);
      expect(await store.updateTemplate(template.id, { isPublic: false })).toMatchObject({
        spawns: 1,
        isPublic: false,
      });
      expect(await store.getTemplate(template.id)).toMatchObject({ lastSpawnedAt: noon + 5 });
    });

    test("lists have pages in order of creation", async () => {
      const { store } = host();
      const { teamId } = await newOwner(store);
      for (const at of [1, 2, 3])
        await store.insertTemplate(templateOf(teamId, { name: `n${at}`, createdAt: noon + at }));
      const query = { teamId, limit: 2, order: "desc" } as const;
      const first = await store.listTemplates(query);
      expect(first.items.map(({ name }) => name)).toEqual(["n3", "n2"]);
      const second = await store.listTemplates({ ...query, cursor: first.next ?? "" });
      expect([second.items.map(({ name }) => name), second.next]).toEqual([["n1"], undefined]);
    });

    test("a build is finished once, with its tags, and only while it builds", async () => {
      const { store } = host();
      const template = templateOf((await newOwner(store)).teamId);
      await store.insertTemplate(template);
      const [one, two] = [buildOf(template.id), buildOf(template.id, { tags: ["a", "b"], createdAt: noon + 1 })];
      for (const build of [one, two]) await store.insertTemplateBuild(build);
      const ended = await Promise.all([1, 2, 3].map((at) => store.finishTemplateBuild(one.id, noon + at)));
      expect(ended.filter(Boolean)).toHaveLength(1);
      await store.finishTemplateBuild(two.id, noon + 9);
      expect(await store.moveTemplateBuild(two.id, ["building"], "failed", { updatedAt: noon })).toBeUndefined();
      const named = async () => (await store.templateTags(template.id)).map(({ tag, buildId }) => [tag, buildId]);
      expect(await named()).toEqual([
        ["a", two.id],
        ["b", two.id],
      ]);
      await store.setTemplateTags(template.id, ["b"], one.id, noon + 10);
      expect(await store.deleteTemplateTags(template.id, ["a", "none"])).toBe(1);
      expect(await named()).toEqual([["b", one.id]]);
      expect((await store.templateBuilds(template.id, 9)).map(({ id }) => id)).toEqual([two.id, one.id]);
      expect(await store.countTemplateBuilds(template.id)).toBe(2);
      const open = buildOf(template.id);
      await store.insertTemplateBuild(open);
      expect((await store.templateBuildsIn(["building"])).map(({ id }) => id)).toContain(open.id);
    });

    test("old builds are forgotten, except those that a tag names or that run; counts are of one team", async () => {
      const { store } = host();
      const { teamId } = await newOwner(store);
      const template = templateOf(teamId);
      await store.insertTemplate(template);
      const states = ["ready", "building", "failed", "waiting", "ready"] as const;
      const builds = states.map((state, at) => buildOf(template.id, { state, createdAt: noon + at }));
      for (const build of builds) await store.insertTemplateBuild(build);
      await store.setTemplateTags(template.id, ["a"], builds[0]?.id ?? "", noon);
      const line = { at: noon, level: "info", message: "m" } as const;
      // More lines than a statement can have.
      await store.addTemplateLog(builds[2]?.id ?? "", 0, Array(6000).fill(line));
      expect([
        await store.pruneTemplateBuilds(template.id, 1),
        await store.pruneTemplateBuilds(template.id, 1),
      ]).toEqual([2, 0]);
      const left = (await store.templateBuilds(template.id, 9)).map(({ id }) => id);
      expect(left).toEqual([builds[4], builds[1], builds[0]].map((build) => build?.id));
      const log = { buildId: builds[2]?.id ?? "", level: "debug", order: "asc", limit: 10 } as const;
      expect(await store.templateLog(log)).toEqual([]);
      expect([await store.countTemplates(teamId), await store.countTemplates("none")]).toEqual([1, 0]);
    });

    test("a log is read by level, from both ends, and goes with its template", async () => {
      const { store } = host();
      const template = templateOf((await newOwner(store)).teamId);
      const build = buildOf(template.id);
      await store.insertTemplate(template);
      await store.insertTemplateBuild(build);
      const { id: buildId } = build;
      const lines = [
        { at: noon, level: "debug", message: "a" },
        { at: noon + 1, level: "info", message: "b\0c", step: 1 },
        { at: noon + 2, level: "error", message: "d" },
      ] as const;
      await store.addTemplateLog(buildId, 0, lines.slice(0, 2));
      await store.addTemplateLog(buildId, 2, lines.slice(2));
      const read = async (query: object) => {
        const found = await store.templateLog({ buildId, level: "debug", order: "asc", limit: 10, ...query });
        return found.map(({ message }) => message);
      };
      expect(await read({})).toEqual(["a", "b\ufffdc", "d"]);
      expect(await read({ level: "info", offset: 1 })).toEqual(["d"]);
      expect(await read({ order: "desc", limit: 2, from: noon + 1 })).toEqual(["b\ufffdc", "a"]);
      expect(await read({ from: noon + 2 })).toEqual(["d"]);
      expect([await store.deleteTemplate(template.id), await store.deleteTemplate(template.id)]).toEqual([true, false]);
      expect([await read({}), await store.getTemplateBuild(buildId)]).toEqual([[], undefined]);
    });

    test("sandboxes are found by the beginning of their image's name", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const base = { image: "i", runtime: "node24", cwd: "/", user: "root" };
      const { sandbox } = await newSandbox(store, { owner, base: { ...base, imageName: "templates/a_1:b" } });
      await newSandbox(store, { owner, base: { ...base, imageName: "templates/ax1:b" } });
      const query = { ...owner, limit: 9, order: "desc", sortBy: "createdAt" } as const;
      const { items } = await store.listSandboxes({ ...query, imageNamePrefix: "templates/a_1:" });
      expect(items.map(({ id }) => id)).toEqual([sandbox.id]);
    });
  });

  describe("secrets", () => {
    test("a secret is found by id or name in its team only, and each change counts a version", async () => {
      const { store } = host();
      const [{ teamId }, other] = [await newOwner(store), await newOwner(store)];
      const times = { createdAt: noon, updatedAt: noon };
      const secret: Secret = {
        id: unique("sec_"),
        teamId,
        name: "n",
        value: "v",
        version: 1,
        metadata: { a: "b" },
        ...times,
      };
      await store.insertSecret(secret);
      await expect(store.insertSecret({ ...secret, id: unique("sec_") })).rejects.toMatchObject({ code: "exists" });
      for (const key of ["n", secret.id]) {
        expect(await store.findSecret(teamId, key)).toStrictEqual(secret);
        expect(await store.findSecret(other.teamId, key)).toBeUndefined();
      }
      const next = await store.updateSecret(secret.id, { value: "w", updatedAt: noon + 1 });
      expect(next).toStrictEqual({ ...secret, value: "w", version: 2, updatedAt: noon + 1 });
      const list = { teamId, limit: 5, order: "asc" } as const;
      expect((await store.listSecrets(list)).items).toStrictEqual([next]);
      expect([await store.countSecrets(teamId), await store.countSecrets(other.teamId)]).toEqual([1, 0]);
      expect([await store.deleteSecret(secret.id), await store.deleteSecret(secret.id)]).toEqual([true, false]);
    });
  });
}
