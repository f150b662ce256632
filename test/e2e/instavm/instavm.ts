/** InstaVM's API for tests: requests with a key in its header, forms, and a second team. */

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { hashKey } from "../../../src/daemon/secrets.ts";
import { openStore } from "../../../src/store/sql-store.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import type { RawAnswer } from "../clients.ts";

export type Ask = (method: string, path: string, body?: unknown) => Promise<RawAnswer>;

/** sends requests as InstaVM's own clients do, with the key in X-API-Key */
export function instavm(daemon: () => TestDaemon, key?: () => string): Ask {
  return async (method, path, body) => {
    const isForm = body instanceof FormData || body instanceof URLSearchParams;
    const headers = {
      "x-api-key": key?.() ?? daemon().key,
      ...(body !== undefined && !isForm && { "content-type": "application/json" }),
    };
    const sent = isForm || typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(new URL(path, daemon().url), {
      method,
      headers,
      ...(body !== undefined && { body: sent }),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, text, json: parsed(text) };
  };
}

export function form(fields: Record<string, string | Blob>): FormData {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  return body;
}

/** a second team with a project and a key, in the daemon's own store */
export async function secondTeam(daemon: TestDaemon): Promise<string> {
  const key = `sk_${randomBytes(20).toString("hex")}`;
  const store = await openStore({ path: join(daemon.dataDir, "sandkeep.db") });
  const createdAt = Date.now();
  await store.insertTeam({ id: "team_second", slug: "second", createdAt });
  const project = { id: "prj_second", uuid: crypto.randomUUID(), teamId: "team_second", name: "default" };
  await store.insertProject({ ...project, createdAt });
  const row = { id: "key_second", teamId: "team_second", name: "second", hint: "", hash: hashKey(key) };
  await store.insertKey({ ...row, createdAt });
  await store.close();
  return key;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
