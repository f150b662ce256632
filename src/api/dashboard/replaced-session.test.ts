/** Signing in with a link: it never replaces the session of another key unless somebody has agreed. */

import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import type { Caller } from "../../core/model/sandbox.ts";
import type { Service } from "../kit/dialect.ts";
import { createDashboard } from "./dashboard.ts";

const url = "http://127.0.0.1:7700";

test("a link of another key is refused to a browser with a session, and stays valid until somebody agrees", async () => {
  // Only these members are used.
  const service = {
    core: {
      access: {
        callerOf: async (teamId: string, keyId: string) => ({ teamId, keyId }),
        signIn: async (caller: Caller) => caller,
      },
    },
    sign: (text: string) => createHmac("sha256", "secret").update(text).digest("hex"),
    clock: () => 1000,
    publicUrl: () => url,
    logError: (error: unknown) => {
      throw error;
    },
  } as unknown as Service;
  const { signInLink, mounts } = createDashboard(service, { modules: "", styles: "" }, () => []);
  const link = (keyId: string) => signInLink({ teamId: "team_1", keyId }, 1000).split("#once=")[1];
  const signIn = async (body: object, headers: Record<string, string> = {}) => {
    const all = { origin: url, host: "127.0.0.1:7700", "content-type": "application/json", ...headers };
    const request = new Request(`${url}/ui/session`, { method: "POST", headers: all, body: JSON.stringify(body) });
    const response = await mounts.find(({ path }) => path.test("/ui/session"))?.app.fetch(request);
    if (!response) throw new Error("Nothing answers");
    const [cookie = ""] = response.headers.get("set-cookie")?.split(";") ?? [];
    const answered = (await response.json()) as { key?: string; binding?: string; error?: { message: string } };
    return { status: response.status, cookie, body: answered };
  };

  const mine = await signIn({ once: link("key_mine") });
  expect(mine).toMatchObject({ status: 200, body: { key: "key_mine" } });
  const session = { cookie: mine.cookie, "x-sandkeep-session": mine.body.binding ?? "" };
  const once = link("key_other");
  const refused = await signIn({ once }, session);
  expect(refused.status).toBe(409);
  expect(refused.cookie).toBe("");
  expect(refused.body.error?.message).toBe(
    "This browser is signed in with key key_mine of team team_1, and the link is for key key_other of team team_1",
  );
  expect(await signIn({ once, replace: true }, session)).toMatchObject({ status: 200, body: { key: "key_other" } });
  expect((await signIn({ once, replace: true }, session)).status).toBe(401);

  // The same key needs no question, and neither does a session that has ended.
  expect((await signIn({ once: link("key_mine") }, session)).status).toBe(200);
  const broken = { ...session, "x-sandkeep-session": "0123456789abcdef" };
  expect((await signIn({ once: link("key_other") }, broken)).status).toBe(200);
});
