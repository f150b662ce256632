/** Downloads: a ticket is for one file, once, soon, and for the browser's session that asked. */

import { createHmac } from "node:crypto";
import { Readable } from "node:stream";
import { Hono } from "hono";
import { expect, test } from "vitest";
import { isSandkeepError } from "../../core/model/errors.ts";
import { BrowserSessions, senderOf } from "../kit/browser/browser-sessions.ts";
import type { Service } from "../kit/dialect.ts";
import type { Connection } from "../kit/http.ts";
import { downloadRoutes } from "./downloads.ts";

const url = "http://127.0.0.1:7700";
const host = "127.0.0.1:7700";
const caller = { teamId: "team_1", keyId: "key_1" };
const session = "sbx_1";

function setup(content = "content") {
  const state = { now: 1000 };
  const asked: unknown[] = [];
  // Downloads use nothing else.
  const service = {
    core: {
      access: { callerOf: async () => caller },
      userFiles: {
        stat: async (_: unknown, __: string, { path }: { path: string }) => ({
          type: path === "/dir" ? "directory" : "file",
        }),
        async read(...args: unknown[]) {
          asked.push(args);
          const file = { path: "/a", size: content.length };
          return { file, bytes: () => Readable.from([Buffer.from(content)]) };
        },
        archive: async () => Readable.from([Buffer.from("archive")]),
      },
    },
    sign: (text: string) => createHmac("sha256", "secret").update(text).digest("hex"),
    clock: () => state.now,
    publicUrl: () => url,
    logError: () => undefined,
  } as unknown as Service;
  const sessions = new BrowserSessions(service);
  const app = new Hono<{ Bindings: Connection }>();
  app.onError((error, c) =>
    c.text(error.message, isSandkeepError(error) && error.code === "unauthenticated" ? 401 : 400),
  );
  downloadRoutes(app, service, sessions);
  const visit = () => {
    const { setCookie, binding } = sessions.open(caller, senderOf(new Request(url, { headers: { host } })));
    const [cookie = ""] = setCookie.split(";");
    return { cookie, "x-sandkeep-session": binding };
  };
  const ask = async (body: object, headers: Record<string, string>) => {
    const sent = { method: "POST", headers: { host, origin: url, ...headers }, body: JSON.stringify(body) };
    return app.fetch(new Request(`${url}/ui/downloads`, sent));
  };
  const get = (address: string, cookie: string, method = "GET") =>
    app.fetch(new Request(`${url}${address}`, { method, headers: { host, cookie } }));
  return { state, asked, visit, ask, get };
}

test("a file is saved under its name, with its length, and only once", async () => {
  const { visit, ask, get, asked } = setup();
  const visitor = visit();
  const made = await ask({ session, path: "/tmp/ü.html" }, visitor);
  expect([made.status, made.headers.get("cache-control")]).toEqual([201, "no-store"]);
  const { address } = (await made.json()) as { address: string };
  expect(address).toMatch(/^\/ui\/downloads\/[0-9a-f]{32}$/);
  // Looking at it does not use it up.
  expect((await get(address, visitor.cookie, "HEAD")).status).toBe(401);
  const answer = await get(address, visitor.cookie);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "content-type": "application/octet-stream",
    "content-disposition": "attachment; filename=\"_.html\"; filename*=UTF-8''%C3%BC.html",
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "content-length": "7",
  });
  expect(await answer.text()).toBe("content");
  expect(asked).toEqual([[caller, session, { path: "/tmp/ü.html" }]]);
  expect((await get(address, visitor.cookie)).status).toBe(401);
});

test("a ticket is refused without its session's cookie, to another session, and after 30 s", async () => {
  const { state, visit, ask, get, asked } = setup();
  const [visitor, other] = [visit(), visit()];
  const addressOf = async () =>
    ((await (await ask({ session, path: "/a" }, visitor)).json()) as { address: string }).address;
  const address = await addressOf();
  for (const cookie of ["", other.cookie]) expect((await get(address, cookie)).status).toBe(401);
  // An attempt of somebody else does not use it up.
  expect((await get(address, visitor.cookie)).status).toBe(200);
  const late = await addressOf();
  state.now += 30_000;
  expect((await get(late, visitor.cookie)).status).toBe(401);
  state.now = 1000;
  const shared = await addressOf();
  const together = await Promise.all([get(shared, visitor.cookie), get(shared, visitor.cookie)]);
  expect(together.map(({ status }) => status).toSorted()).toEqual([200, 401]);
  expect((await get(`/ui/downloads/${"0".repeat(32)}`, visitor.cookie)).status).toBe(401);
  expect(asked).toHaveLength(2);
});

test("only a page of ours gets a ticket, and a folder only as an archive", async () => {
  const { visit, ask, get } = setup();
  const visitor = visit();
  expect((await ask({ session, path: "/a" }, { cookie: visitor.cookie })).status).toBe(401);
  expect((await ask({ session, path: "/a" }, { ...visitor, origin: "http://127.0.0.1:3000" })).status).toBe(400);
  expect(await (await ask({ session, path: "/dir" }, visitor)).text()).toBe(
    'Cannot download "/dir": it is a directory',
  );
  const { address } = (await (await ask({ session, path: "/dir", archive: true }, visitor)).json()) as {
    address: string;
  };
  const answer = await get(address, visitor.cookie);
  expect(answer.headers.get("content-disposition")).toBe('attachment; filename="dir.tar.gz"');
  expect(await answer.text()).toBe("archive");
});

test("an empty file is empty", async () => {
  const { visit, ask, get } = setup("");
  const visitor = visit();
  const { address } = (await (await ask({ session, path: "/a" }, visitor)).json()) as { address: string };
  const answer = await get(address, visitor.cookie);
  expect([answer.headers.get("content-length"), await answer.text()]).toEqual(["0", ""]);
});
