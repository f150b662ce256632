/** Signing in: a link is of no use without its key, and the audit has links and sign-ins. */

import { expect, test } from "vitest";
import { Access } from "../../core/access/access.ts";
import { actions, recorded } from "../../core/audit/actions.ts";
import type { Context } from "../../core/context.ts";
import { isSandkeepError } from "../../core/model/errors.ts";
import type { Service } from "../kit/dialect.ts";
import { createDashboard } from "./dashboard.ts";

const url = "http://127.0.0.1:7700";

function setup() {
  const keys = new Map([["key_1", { id: "key_1", teamId: "team_1", hash: "sk_1" }]]);
  const context = {
    store: {
      findKey: async (hash: string) => [...keys.values()].find((key) => key.hash === hash),
      listKeys: async () => [...keys.values()],
      deleteKey: async (_: string, id: string) => keys.delete(id),
      touchKey: async () => undefined,
    },
    now: () => 0,
  } as unknown as Context; // signing in uses nothing else
  const entries: unknown[] = [];
  const access = recorded(
    new Access(context, { hash: (text) => text }),
    actions.access,
    ({ keyId }, { name }) =>
      ({ error }) =>
        entries.push([keyId, name, isSandkeepError(error) ? error.code : (error ?? "done")]),
  );
  const service = { core: { access }, clock: () => 0, publicUrl: () => url, sign: () => "00" } as unknown as Service;
  const [, { app } = {}] = createDashboard(service, { modules: "", styles: "" }, () => []).mounts;
  const ask = async (path: string, body?: object) => {
    const headers = { authorization: "Bearer sk_1", origin: url, host: "127.0.0.1:7700" };
    const answer = await app?.fetch(
      new Request(`${url}${path}`, { method: "POST", headers, ...(body && { body: JSON.stringify(body) }) }),
    );
    return { status: answer?.status, json: JSON.parse((await answer?.text()) ?? "") };
  };
  return { access, entries, ask };
}

test("a link signs in while its key is there, and the audit has both", async () => {
  const { access, entries, ask } = setup();
  const once = async () => String((await ask("/ui/links")).json.url).split("#once=")[1];
  const [good, late] = [await once(), await once()];
  expect(await ask("/ui/session", { once: good })).toMatchObject({ status: 200, json: { key: "key_1" } });
  expect((await ask("/ui/session", { key: "sk_1" })).status).toBe(200);
  await access.deleteKey({ teamId: "team_1", keyId: "key_1" }, "key_1");
  expect((await ask("/ui/session", { once: late })).status).toBe(401);
  expect(entries).toEqual([
    ["key_1", "key.make-sign-in-link", "done"],
    ["key_1", "key.make-sign-in-link", "done"],
    ["key_1", "key.sign-in", "done"],
    ["key_1", "key.sign-in", "done"],
    ["key_1", "key.delete", "done"],
    ["key_1", "key.sign-in", "unauthenticated"],
  ]);
});
