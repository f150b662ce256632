/** Parts of the story of api.test.ts: teams with their keys and quotas, the end of a team, and webhooks. */

import { expect } from "vitest";
import type { DocumentClient, Received, Sent } from "./document.ts";

type Call = (id: string, sent?: Sent) => Promise<Received>;

/** returns the secret of a key of another team, whose id it puts among the things */
export async function teamsAndKeys(api: DocumentClient, call: Call, things: Record<string, string>): Promise<string> {
  expect((await call("getCaller")).json).toEqual({
    ...{ teamId: "team_default", team: "default", projectId: "prj_default", project: "default" },
    ...{ key: { id: expect.stringMatching(/^key_/), name: "preset" }, readOnly: false, admin: true },
  });
  const team = (await call("createTeam", { body: { slug: "second" } })).json;
  expect((await api.send("createTeam", { body: { slug: "second" } })).status).toBe(409);
  expect((await call("listTeams")).json.teams).toContainEqual(team);
  const query = { team: "second" };
  await call("createProject", { query, body: { name: "web" } });
  const page = async (more: object) => (await call("listProjects", { query: { ...query, limit: 1, ...more } })).json;
  const first = await page({});
  expect(first).toMatchObject({ projects: [{ name: "default" }], next: expect.any(String) });
  expect(await page({ cursor: first.next })).toMatchObject({ projects: [{ name: "web" }], next: null });
  expect((await call("listProjects", { query })).json.projects).toHaveLength(2);
  expect((await call("getProject", { query, params: { project: "web" } })).json.teamId).toBe(team.id);
  const made = (await call("createKey", { query, body: { name: "theirs" } })).json;
  const foreignKey: string = made.secret;
  things.key = made.key.id;
  expect((await call("renameKey", { query, body: { name: "ours" } })).json).toMatchObject({
    name: "ours",
    admin: false,
  });
  expect((await call("listKeys", { query })).json.keys).toHaveLength(1);
  const limits = { sandboxes: 1, vcpus: 8, memory: null };
  await call("setQuota", { query, body: { sandboxes: 1, vcpus: 8 } });
  expect((await api.send("setQuota", { key: foreignKey, body: {} })).status).toBe(403);
  // An admin key acts for the other team, whose key sees only itself.
  await call("createSandbox", { query, body: { name: "theirs" } });
  expect((await call("getQuota", { key: foreignKey })).json).toMatchObject({ limits, use: { sandboxes: 1 } });
  const beyond = await api.send("createSandbox", { key: foreignKey, body: { name: "more" } });
  expect([beyond.status, beyond.json.error.code]).toEqual([429, "limit"]);
  expect((await call("listSandboxes", { key: foreignKey })).json.sandboxes).toHaveLength(1);
  expect((await call("listTeams", { key: foreignKey })).json.teams).toEqual([team]);
  for (const id of ["listSandboxes", "listKeys"]) {
    expect((await api.send(id, { key: foreignKey, query: { team: "team_default" } })).status).toBe(403);
  }
  expect((await api.send("createTeam", { key: foreignKey, body: { slug: "third" } })).status).toBe(403);
  const admin = { name: "x", admin: true };
  expect((await api.send("createKey", { key: foreignKey, body: admin })).status).toBe(403);
  await call("deleteSandbox", { query, params: { sandbox: "theirs" } });
  await call("setQuota", { query, body: {} });
  const keyQuota = { query, body: { sandboxes: 0 } };
  expect((await call("setKeyQuota", keyQuota)).json).toMatchObject({ limits: { sandboxes: 0, disk: null } });
  const ofKey = await api.send("createSandbox", { key: foreignKey, body: { name: "of-key" } });
  expect([ofKey.status, ofKey.json.error.message]).toEqual([429, expect.stringContaining(`key "${things.key}"`)]);
  expect((await call("getKeyQuota", { key: foreignKey })).json.use.sandboxes).toBe(0);
  await call("setKeyQuota", { query, body: {} });
  await call("setQuota", { query, body: { createsPerMinute: 0 } });
  const tooOften = await api.send("createSandbox", { key: foreignKey, body: { name: "again" } });
  expect([tooOften.status, tooOften.json.error.message]).toEqual([429, expect.stringContaining("in a minute")]);
  await call("setQuota", { query, body: {} });
  return foreignKey;
}

export async function endOfTeam(api: DocumentClient, call: Call): Promise<void> {
  const team = (await call("createTeam", { body: { slug: "brief" } })).json;
  const query = { team: "brief" };
  const { secret: key } = (await call("createKey", { query, body: { name: "k" } })).json;
  await call("createSandbox", { key, body: { name: "left" } });
  await call("putDrive", { key, params: { drive: "left" }, body: {} });
  const params = { team: "brief" };
  const refused = await api.send("deleteTeam", { params });
  expect([refused.status, refused.json.error.message]).toEqual([
    409,
    'Cannot delete team "brief": it has 1 sandbox, 1 drive; delete them first, or use force',
  ]);
  expect((await api.send("deleteTeam", { key, params, query: { force: true } })).status).toBe(403);
  expect((await api.send("deleteTeam", { params: { team: "default" }, query: { force: true } })).status).toBe(409);
  await call("deleteTeam", { params, query: { force: true } });
  expect((await api.send("deleteTeam", { params })).status).toBe(404);
  expect((await api.send("listSandboxes", { key })).status).toBe(401);
  for (const name of ["brief", team.id]) {
    expect((await api.send("listSandboxes", { query: { team: name } })).status).toBe(404);
  }
  expect((await call("getCapacity")).json.machines.running).toBe(1);
  expect((await call("createTeam", { body: { slug: "brief" } })).json.id).not.toBe(team.id);
  await call("deleteTeam", { params });
}

/** puts a webhook and a delivery among the things */
export async function webhooks(call: Call, things: Record<string, string>): Promise<void> {
  const made = (await call("createWebhook", { body: { url: "https://hook.invalid/", events: ["session"] } })).json;
  things.webhook = made.webhook.id;
  expect([made.secret, made.webhook.enabled]).toEqual([expect.stringMatching(/^whsec_\w{44}$/), true]);
  const changed = (await call("changeWebhook", { body: { events: [], enabled: false } })).json;
  expect(changed).toMatchObject({ events: [], enabled: false, disabledReason: null });
  expect((await call("rotateWebhookSecret")).json.secret).not.toBe(made.secret);
  const tested = (await call("testWebhook")).json;
  expect(tested).toMatchObject({ state: "failed", attempts: 1, status: null });
  expect(tested.reason).toContain("finds no address");
  things.delivery = tested.id;
  expect((await call("redeliver")).json).toMatchObject({ id: tested.id, attempts: 2 });
  expect((await call("listDeliveries")).json.deliveries).toHaveLength(1);
  expect((await call("listWebhooks")).json.webhooks).toEqual([(await call("getWebhook")).json]);
}
