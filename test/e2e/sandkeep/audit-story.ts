/** The audit of the whole story: what two teams did, with the key of each call. */

import { expect } from "vitest";
import type { DocumentClient, Received, Sent } from "./document.ts";

type Call = (id: string, sent?: Sent) => Promise<Received>;

/** `secrets`: the key of the second team, and others that no entry may have */
export async function auditOfBoth(
  api: DocumentClient,
  call: Call,
  things: Record<string, string>,
  secrets: [string, ...string[]],
): Promise<void> {
  const { entries } = (await call("listAudit", { query: { team: "second", order: "asc" } })).json;
  const [{ keyId }] = entries;
  const sent = { projectId: null, keyId, wire: "sandkeep", address: "127.0.0.1" };
  expect(entries.slice(0, 3)).toMatchObject([
    { ...sent, action: "project.create", outcome: "done" },
    { ...sent, action: "key.create", target: things.key, outcome: "done" },
    { ...sent, action: "key.rename", target: things.key, outcome: "done" },
  ]);
  expect(entries).toContainEqual(
    expect.objectContaining({ keyId: things.key, action: "sandbox.create", target: "more", outcome: "limit" }),
  );
  const own = (await call("listAudit", { key: secrets[0], query: { limit: 1000, order: "asc" } })).json;
  expect(own.entries.slice(0, entries.length)).toEqual(entries);
  expect((await api.send("listAudit", { key: secrets[0], query: { allTeams: true } })).status).toBe(403);
  const all = await call("listAudit", { query: { limit: 1000, order: "asc", allTeams: true } });
  expect(all.json.entries[0]).toMatchObject({ action: "sandbox.create", target: "story", projectId: "prj_default" });
  const actions = new Set(all.json.entries.map(({ action }: { action: string }) => action));
  const some = "command.run command.signal file.write file.move port.open session.set-network-policy snapshot.create";
  const more =
    "session.pause session.stop sandbox.resume drive.create drive.fork image.build team.create team.delete quota.set";
  expect(`${some} ${more}`.split(" ").filter((action) => !actions.has(action))).toEqual([]);
  expect(all.text).not.toMatch(/hello|GREETING/);
  for (const secret of secrets) expect(all.text).not.toContain(secret);
}
