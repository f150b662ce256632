/** The audit: what is recorded and what is not, that no content gets in, and that nothing is lost while the store fails. */

import { beforeEach, expect, test } from "vitest";
import { fakeCore } from "../../../test/harness/fake-core.ts";
import { Quotas } from "../access/quotas.ts";
import type { BuildSpec } from "../builds/builds.ts";
import type { Context } from "../context.ts";
import { Host } from "../host.ts";
import type { AuditEntry, Origin } from "../model/audit.ts";
import { SandkeepError } from "../model/errors.ts";
import type { AuditQuery, AuditRule } from "../ports/audit-records.ts";
import type { Recorded } from "./actions.ts";
import { Audit } from "./audit.ts";

/** where the current call comes from */
let origin: Origin = {};
beforeEach(() => {
  origin = { wire: "some", address: "192.0.2.1" };
});

const caller = { teamId: "team_1", keyId: "key_1" };
const owner = { ...caller, projectId: "prj_1" };

interface Replaced {
  addAudit?: (entries: readonly AuditEntry[]) => Promise<void>;
  calls?: Parameters<typeof fakeCore>[0];
}

function fixture({ addAudit, calls }: Replaced = {}) {
  const stored: AuditEntry[] = [];
  const queries: AuditQuery[] = [];
  const rules: AuditRule[] = [];
  const context = {
    store: {
      addAudit: addAudit ?? (async (entries: readonly AuditEntry[]) => void stored.push(...entries)),
      listAudit: async (query: AuditQuery) => {
        queries.push(query);
        return { items: [...stored] };
      },
      listTeams: async ({ deleted = false } = {}) => (deleted ? [] : [{ id: "team_1" }]),
      pruneAudit: async (rule: AuditRule) => rules.push(rule) % 2,
      findTeam: async () => undefined,
      openSessions: async () => [],
    },
    ids: { run: () => "run" },
    now: () => 7,
    limits: { auditRetention: 5, auditKept: 100 },
    logError: (error: unknown) => {
      throw error;
    },
    origin: () => origin,
  } as unknown as Context; // the audit uses nothing else
  const audit = new Audit(context);
  const services: Recorded = {
    ...fakeCore({
      "commands.kill": async () => {
        throw new SandkeepError("not-found", "There is no such command");
      },
      "files.write": async () => ({}),
      "secrets.create": async () => ({ id: "sec_1" }),
      "sandboxes.resume": async () => ({ resumed: false }),
      ...calls,
    }).core,
    quotas: new Quotas(context),
    host: new Host(context),
  };
  return { audit, core: audit.over(services), stored, queries, rules };
}

test("the word for a kind of thing selects every action on it, and a word without any is refused", async () => {
  const { audit, queries } = fixture();
  const page = { limit: 5, order: "desc" as const };
  await audit.page(caller, { ...page, action: "key" });
  expect(queries[0]?.actions).toEqual(expect.arrayContaining(["key.create", "key.delete", "key.sign-in"]));
  expect(queries[0]?.actions?.every((action) => action.startsWith("key."))).toBe(true);
  await audit.page(caller, { ...page, action: "old.action", keyId: "key_1" });
  expect(queries[1]).toEqual({ ...page, actions: ["old.action"], keyId: "key_1", teamId: "team_1" });
  await expect(audit.page(caller, { ...page, action: "ke" })).rejects.toThrow('Cannot list actions on "ke"');
});

test("a change has an entry with its caller, origin, things and outcome; reading has none", async () => {
  const { audit, core } = fixture();
  await core.sandboxes.get(owner, "demo");
  await core.sessions.stop(caller, "sbx_1");
  await expect(core.commands.kill(caller, "sbx_1", "cmd_1", 15)).rejects.toThrow("no such command");
  await expect(core.host.upgrade({ teamId: "team_1" })).rejects.toMatchObject({ code: "forbidden" });
  const { items } = await audit.page(caller, { limit: 10, order: "asc" });
  const origin = { at: 7, teamId: "team_1", wire: "some", address: "192.0.2.1" };
  expect(items).toEqual([
    {
      ...{ ...origin, id: "aud_run00000000", keyId: "key_1", action: "session.stop" },
      ...{ target: "sbx_1", sessionId: "sbx_1", outcome: "done" },
    },
    {
      ...{ ...origin, id: "aud_run00000001", keyId: "key_1", action: "command.signal" },
      ...{ target: "cmd_1", sessionId: "sbx_1", outcome: "not-found" },
    },
    { ...origin, id: "aud_run00000002", action: "host.upgrade", outcome: "forbidden" },
  ]);
});

test("an entry has names and ids, and nothing of what was written", async () => {
  const { audit, core } = fixture();
  await core.secrets.create(owner, "token", { value: "of great worth" });
  await core.commands.run(owner, "sbx_1", { name: "echo", args: ["of great worth"], env: { A: "of great worth" } });
  await core.files.write(owner, "sbx_1", `/${"x".repeat(300)}`, Buffer.from("of great worth"));
  const { items } = await audit.page(caller, { limit: 10, order: "asc" });
  expect(items.map(({ action }) => action)).toEqual(["secret.create", "command.run", "file.write"]);
  expect(items[0]).toMatchObject({ projectId: "prj_1", target: "token" });
  expect(items[2]?.target).toBe(`/${"x".repeat(255)}…`);
  expect(JSON.stringify(items)).not.toContain("worth");
});

test("a command that did not start has its program as target, but no line with arguments", async () => {
  const { audit, core } = fixture({
    calls: {
      "commands.run": async () => {
        throw new SandkeepError("invalid", "There is no such program");
      },
    },
  });
  for (const name of ["/usr/bin/nosuch", "TOKEN=secret nosuch"]) {
    await expect(core.commands.run(owner, "sbx_1", { name, args: [] })).rejects.toThrow("no such program");
  }
  const { items } = await audit.page(caller, { limit: 10, order: "asc" });
  expect(items.map(({ target }) => target)).toEqual(["/usr/bin/nosuch", "sbx_1"]);
});

test("a call that streams has one entry, when its stream has ended, failed or lost its reader", async () => {
  async function* work(isFailing: boolean) {
    yield { type: "waiting" };
    if (isFailing) throw new SandkeepError("invalid", "A step failed");
  }
  const { audit, core } = fixture({
    calls: { "builds.build": async (_: unknown, { name }: { name: string }) => work(name === "fails") },
  });
  const outcomes = async () => {
    const { items } = await audit.page(caller, { limit: 10, order: "asc" });
    return items.map(({ target, outcome, wire }) => [target, outcome, wire]);
  };
  const started = (name: string) => core.builds.build(owner, { name } as BuildSpec);
  const stream = await started("works");
  await stream.next();
  expect(await outcomes()).toEqual([]);
  await stream.next();
  await stream.return(undefined);
  const failing = await started("fails");
  origin = {};
  await failing.next();
  await expect(failing.next()).rejects.toThrow("A step failed");
  origin = { wire: "other" };
  for await (const _ of await started("left")) break;
  await (await started("unread")).return(undefined);
  expect(await outcomes()).toEqual([
    ["works", "done", "some"],
    ["fails", "invalid", "some"],
    ["left", "gone", "other"],
    ["unread", "gone", "other"],
  ]);
});

test("a call that found everything as it wanted has no entry", async () => {
  const { audit, core } = fixture();
  await core.sandboxes.resume(owner, "demo");
  expect((await audit.page(caller, { limit: 10, order: "asc" })).items).toEqual([]);
});

test("calls do not wait for the store, and entries that it refused are stored later, in order", async () => {
  let isAway = true;
  const stored: string[] = [];
  const { audit, core } = fixture({
    async addAudit(entries) {
      if (isAway) throw new SandkeepError("unavailable", "The database is away");
      stored.push(...entries.map(({ target = "" }) => target));
    },
  });
  for (let i = 0; i < 250; i++) await core.sessions.stop(caller, `sbx_${i}`);
  await expect(audit.page(caller, { limit: 10, order: "asc" })).rejects.toMatchObject({ code: "unavailable" });
  isAway = false;
  await core.sessions.stop(caller, "sbx_250");
  await audit.close();
  expect(stored).toEqual(Array.from({ length: 251 }, (_, i) => `sbx_${i}`));
});

test("a team sees its own entries; only an admin key sees all, and a key of a project none", async () => {
  const { audit, queries } = fixture();
  const page = { limit: 10, order: "asc" as const };
  await audit.page({ ...caller, scope: { readOnly: true } }, page);
  await audit.page({ ...caller, admin: true }, { ...page, allTeams: true });
  expect(queries).toEqual([{ ...page, teamId: "team_1" }, page]);
  await expect(audit.page(caller, { ...page, allTeams: true })).rejects.toMatchObject({ code: "forbidden" });
  const ofProject = { ...caller, scope: { projectId: "prj_1" } };
  await expect(audit.page(ofProject, page)).rejects.toMatchObject({ code: "forbidden" });
});

test("old entries are deleted in steps, until none are left", async () => {
  const { audit, rules } = fixture();
  await audit.prune();
  expect(rules).toEqual(Array.from({ length: 2 }, () => ({ teamId: "team_1", from: 2, newest: 100, limit: 500 })));
});
