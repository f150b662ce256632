/** Teams, projects and keys: found by each of their names, and never by another team. */

import { describe, expect, test } from "vitest";
import type { ApiKey } from "../../../src/core/ports/store.ts";
import { freshStore, newOwner, noon, type StoreHost, unique } from "./host.ts";

export function teamsSuite(host: () => StoreHost): void {
  describe("teams", () => {
    test("a database has no identity at first, and then the last one that was set", async () => {
      const store = await freshStore(host());
      expect(await store.identity()).toBeUndefined();
      await store.setIdentity("one");
      await store.setIdentity("two");
      expect(await store.identity()).toBe("two");
    });

    test("a team is found by its id and by its slug", async () => {
      const { store } = host();
      const team = { id: unique("team_"), slug: unique("slug-"), createdAt: noon };
      await store.insertTeam(team);
      expect(await store.findTeam(team.id)).toEqual(team);
      expect(await store.findTeam(team.slug)).toEqual(team);
      expect(await store.findTeam("nobody")).toBeUndefined();
    });

    test("a team has the quota that was set last", async () => {
      const { store } = host();
      const team = { id: unique("team_"), slug: unique("slug-"), createdAt: noon };
      await store.insertTeam(team);
      await store.setQuota(team.id, { sandboxes: 1 });
      await store.setQuota(team.id, { vcpus: 2.5, memory: 1024 });
      expect(await store.findTeam(team.id)).toEqual({ ...team, quota: { vcpus: 2.5, memory: 1024 } });
    });

    test("a key is found by its id, and has the quota that was set last", async () => {
      const { store } = host();
      const { teamId } = await newOwner(store);
      const key = { id: unique("key_"), teamId, name: "k", hash: unique("hash-"), hint: "abcd", createdAt: noon };
      await store.insertKey(key);
      await store.setKeyQuota(key.id, { sandboxes: 1 });
      await store.setKeyQuota(key.id, { vcpus: 1.5, disk: 7 });
      expect(await store.getKey(key.id)).toEqual({ ...key, quota: { vcpus: 1.5, disk: 7 } });
      expect(await store.getKey("key_none")).toBeUndefined();
    });

    test("a deleted team is found by no name, its slug is free, and its keys are gone", async () => {
      const { store } = host();
      const { teamId, projectId } = await newOwner(store);
      const slug = unique("slug-");
      const team = { id: unique("team_"), slug, createdAt: noon };
      await store.insertTeam(team);
      const project = { id: unique("prj_"), uuid: unique("uuid-"), teamId: team.id, name: "default", createdAt: noon };
      await store.insertProject(project);
      const key = { id: unique("key_"), name: "k", hash: unique("hash-"), hint: "abcd", createdAt: noon };
      await store.insertKey({ ...key, teamId: team.id });
      expect(await store.deleteTeam(team.id, noon + 1)).toBe(true);
      expect(await store.deleteTeam(team.id, noon + 2)).toBe(false);
      for (const name of [team.id, slug]) expect(await store.findTeam(name)).toBeUndefined();
      expect(await store.findKey(key.hash)).toBeUndefined();
      const others = await store.listTeams();
      expect([others.some(({ id }) => id === team.id), others.some(({ id }) => id === teamId)]).toEqual([false, true]);
      const deleted = (await store.listTeams({ deleted: true })).find(({ id }) => id === team.id);
      expect(deleted).toEqual({ ...team, slug: team.id, deletedAt: noon + 1 });
      expect(await store.listProjects(team.id)).toEqual([project]);
      expect(await store.findProject(teamId, projectId)).toBeDefined();
      await store.insertTeam({ ...team, id: unique("team_") });
      expect((await store.findTeam(slug))?.slug).toBe(slug);
    });

    test("inserting a team again changes nothing", async () => {
      const { store } = host();
      const team = { id: unique("team_"), slug: unique("slug-"), createdAt: noon };
      await store.insertTeam(team);
      await store.insertTeam({ ...team, slug: unique("other-"), createdAt: noon + 1 });
      expect(await store.findTeam(team.id)).toEqual(team);
    });

    test("two teams cannot have one slug", async () => {
      const { store } = host();
      const slug = unique("slug-");
      await store.insertTeam({ id: unique("team_"), slug, createdAt: noon });
      const second = store.insertTeam({ id: unique("team_"), slug, createdAt: noon });
      await expect(second).rejects.toMatchObject({ code: "exists" });
    });

    test("an id has precedence over another team's equal slug", async () => {
      const { store } = host();
      const id = unique("team_");
      await store.insertTeam({ id: unique("team_"), slug: id, createdAt: noon });
      await store.insertTeam({ id, slug: unique("slug-"), createdAt: noon + 1 });
      expect(await store.findTeam(id)).toMatchObject({ id });
    });

    test("teams are listed by age", async () => {
      const store = await freshStore(host());
      expect(await store.listTeams()).toEqual([]);
      const [younger, older] = [1, 0].map((age) => ({
        id: unique("team_"),
        slug: unique("s-"),
        createdAt: noon + age,
      }));
      for (const team of [younger, older]) if (team) await store.insertTeam(team);
      expect(await store.listTeams()).toEqual([older, younger]);
    });
  });

  describe("projects", () => {
    test("a project is found by id, UUID and name, by its own team only", async () => {
      const { store } = host();
      const [{ teamId }, stranger] = [await newOwner(store), await newOwner(store)];
      const project = {
        id: unique("prj_"),
        uuid: unique("uuid-"),
        teamId,
        name: unique("Ünïcode 🏖 "),
        createdAt: noon,
      };
      await store.insertProject(project);
      for (const name of [project.id, project.uuid, project.name]) {
        expect(await store.findProject(teamId, name)).toEqual(project);
        expect(await store.findProject(stranger.teamId, name)).toBeUndefined();
      }
      expect(await store.findAnyProject(project.id)).toEqual(project);
      expect(await store.findAnyProject(project.uuid)).toEqual(project);
      expect(await store.findAnyProject(project.name)).toBeUndefined();
    });

    test("a project's id has precedence over another project's equal name", async () => {
      const { store } = host();
      const { teamId, projectId } = await newOwner(store);
      await store.insertProject({
        id: unique("prj_"),
        uuid: unique("uuid-"),
        teamId,
        name: projectId,
        createdAt: noon,
      });
      expect(await store.findProject(teamId, projectId)).toMatchObject({ id: projectId });
    });

    test("a name is taken within a team, and available in another", async () => {
      const { store } = host();
      const [one, other] = [await newOwner(store), await newOwner(store)];
      const project = (teamId: string) => ({
        id: unique("prj_"),
        uuid: unique("uuid-"),
        teamId,
        name: "web",
        createdAt: noon,
      });
      await store.insertProject(project(one.teamId));
      await store.insertProject(project(other.teamId));
      await expect(store.insertProject(project(one.teamId))).rejects.toMatchObject({ code: "exists" });
      expect((await store.listProjects(one.teamId)).filter(({ name }) => name === "web")).toHaveLength(1);
    });

    test("of two parallel creates of one project, one succeeds", async () => {
      const { store } = host();
      const { teamId } = await newOwner(store);
      const create = () =>
        store.insertProject({ id: unique("prj_"), uuid: unique("uuid-"), teamId, name: "web", createdAt: noon });
      const outcomes = await Promise.allSettled([create(), create(), create()]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected"]);
    });

    test("a project of a team that is unknown is refused", async () => {
      const project = { id: unique("prj_"), uuid: unique("uuid-"), teamId: "team_none", name: "x", createdAt: noon };
      await expect(host().store.insertProject(project)).rejects.toMatchObject({ code: "not-found" });
    });
  });

  describe("keys", () => {
    const keyOf = (teamId: string, createdAt = noon): ApiKey => ({
      id: unique("key_"),
      teamId,
      name: "a key",
      hash: unique("hash-"),
      hint: "wxyz",
      createdAt,
      admin: true,
    });

    test("a key is found by its hash, and listed by age for its team", async () => {
      const { store } = host();
      const [{ teamId }, stranger] = [await newOwner(store), await newOwner(store)];
      const [younger, older] = [keyOf(teamId, noon + 1), keyOf(teamId)];
      await store.insertKey(younger);
      await store.insertKey(older);
      expect(await store.findKey(older.hash)).toEqual(older);
      expect(await store.findKey("no such hash")).toBeUndefined();
      expect(await store.listKeys(teamId)).toEqual([older, younger]);
      expect(await store.listKeys(stranger.teamId)).toEqual([]);
    });

    test("only its team renames a key", async () => {
      const { store } = host();
      const [{ teamId }, stranger] = [await newOwner(store), await newOwner(store)];
      const key = keyOf(teamId);
      await store.insertKey(key);
      expect(await store.renameKey(stranger.teamId, key.id, "theirs")).toBeUndefined();
      expect(await store.renameKey(teamId, key.id, "ours")).toEqual({ ...key, name: "ours" });
      expect(await store.findKey(key.hash)).toEqual({ ...key, name: "ours" });
    });

    test("only its team deletes a key, once", async () => {
      const { store } = host();
      const [{ teamId }, stranger] = [await newOwner(store), await newOwner(store)];
      const key = keyOf(teamId);
      await store.insertKey(key);
      expect(await store.deleteKey(stranger.teamId, key.id)).toBe(false);
      expect(await store.findKey(key.hash)).toEqual(key);
      expect(await store.deleteKey(teamId, key.id)).toBe(true);
      expect(await store.deleteKey(teamId, key.id)).toBe(false);
      expect(await store.findKey(key.hash)).toBeUndefined();
    });
  });
}
