/** Sessions of browsers: both values are needed, and a session ends with its time, its key or its person. */

import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import type { Core } from "../../../core/core.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { LineFiles } from "../../../core/ports/line-files.ts";
import { BrowserSessions, type Sender } from "./browser-sessions.ts";
import { SignOuts } from "./sign-outs.ts";

const caller = { teamId: "team_1", keyId: "key_1" };

function setup(publicUrl = "http://127.0.0.1:7700", signOuts?: SignOuts) {
  const state = { now: 1000, hasKey: true };
  const callerOf = async (teamId: string, keyId: string) => {
    if (state.hasKey) return { teamId, keyId };
    throw new SandkeepError("unauthenticated", "Cannot authenticate: the key is gone");
  };
  const sessions = new BrowserSessions({
    // Only this method of the core is used.
    core: { access: { callerOf } } as unknown as Core,
    sign: (text) => createHmac("sha256", "secret").update(text).digest("hex"),
    clock: () => state.now,
    publicUrl: () => publicUrl,
    signOuts,
  });
  const host = new URL(publicUrl).host;
  const opened = sessions.open(caller, sender({ host }));
  const [cookie = ""] = opened.setCookie.split(";");
  return { sessions, state, opened, cookie, whole: { host, cookie, "x-sandkeep-session": opened.binding } };
}

function sender(headers: Record<string, string>, method = "GET"): Sender {
  return { method, header: (name) => headers[name] };
}

test("a request with both values has the caller of the session's key", async () => {
  const { sessions, whole, opened } = setup();
  expect(sessions.isUsedBy(sender(whole))).toBe(true);
  expect(await sessions.authenticate(sender(whole))).toEqual(caller);
  expect(opened.setCookie).toMatch(/^sandkeep_7700=\S+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
  const { cookie, host } = whole;
  const upgrade = { host, cookie, upgrade: "websocket", origin: "http://127.0.0.1:7700" };
  const offered = { ...upgrade, "sec-websocket-protocol": `sandkeep, sandkeep.session.${opened.binding}` };
  expect(await sessions.authenticate(sender(offered))).toEqual(caller);
});

test("one of the values alone, or of two sessions, is refused", async () => {
  const { sessions, whole, cookie, opened } = setup();
  const other = sessions.open(caller, sender({ host: whole.host }));
  const changed = `${cookie.slice(0, -1)}${cookie.endsWith("0") ? "1" : "0"}`;
  for (const wrong of [{ cookie: "" }, { cookie: changed }, { "x-sandkeep-session": other.binding }]) {
    await expect(sessions.authenticate(sender({ ...whole, ...wrong }))).rejects.toThrow("no such session");
  }
  expect(sessions.isUsedBy(sender({ cookie }))).toBe(false);
  // A cookie that another page of this host has set does not hide the right one.
  const tossed = { ...whole, cookie: `sandkeep_7700=x; ${other.setCookie.split(";")[0]}; ${cookie}` };
  expect(await sessions.authenticate(sender(tossed))).toEqual(caller);
  for (const name of ["other", "sandkeep_7700"]) {
    const many = Array.from({ length: 1000 }, (_, i) => `${name}=${i}; `).join("");
    expect(await sessions.authenticate(sender({ ...whole, cookie: `${many}${cookie}` })), name).toEqual(caller);
  }
  expect(opened.binding).not.toBe(other.binding);
});

test.each([undefined, "null", "http://a.localhost:7700", "https://127.0.0.1:7700", "http://127.0.0.1:7701"])(
  "a change from a page of origin %s is refused",
  async (origin) => {
    const { sessions, whole } = setup();
    const headers = { ...whole, ...(origin !== undefined && { origin }) };
    await expect(sessions.authenticate(sender(headers, "POST"))).rejects.toThrow("another origin");
    const own = { ...whole, origin: "http://127.0.0.1:7700" };
    expect(await sessions.authenticate(sender(own, "POST"))).toEqual(caller);
  },
);

test("a session ends when it expires, when its key is gone, and when its person signs out", async () => {
  const { sessions, state, whole } = setup();
  state.hasKey = false;
  await expect(sessions.authenticate(sender(whole))).rejects.toThrow("the key is gone");
  state.hasKey = true;
  state.now += 12 * 3600 * 1000;
  await expect(sessions.authenticate(sender(whole))).rejects.toThrow("has expired");
  state.now = 1000;
  expect(sessions.close(sender(whole))).toContain("Max-Age=0");
  await expect(sessions.authenticate(sender(whole))).rejects.toThrow("has ended");
});

test("over HTTPS the cookie is bound to this host name", () => {
  const { opened } = setup("https://sandkeep.example.com");
  expect(opened.setCookie).toMatch(/^__Host-sandkeep=.*; Secure$/);
});

test("signing out ends every renewal of the session", async () => {
  const { sessions, state, whole } = setup();
  state.now += 1000;
  const { opened } = await sessions.renew(sender(whole));
  const [cookie = ""] = opened.setCookie.split(";");
  const renewed = { ...whole, cookie, "x-sandkeep-session": opened.binding };
  expect(await sessions.authenticate(sender(renewed))).toEqual(caller);
  sessions.close(sender(renewed));
  for (const each of [whole, renewed]) await expect(sessions.authenticate(sender(each))).rejects.toThrow("has ended");
});

test("a page that is left during a renewal keeps its session, with the new cookie and the binding of before", async () => {
  const { sessions, state, whole } = setup();
  state.now += 1000;
  const [cookie = ""] = (await sessions.renew(sender(whole))).opened.setCookie.split(";");
  expect(await sessions.authenticate(sender({ ...whole, cookie }))).toEqual(caller);
});

test("a request with an empty Host is refused, and is no fault of the daemon", async () => {
  const { sessions, whole } = setup();
  await expect(sessions.authenticate(sender({ ...whole, host: "" }))).rejects.toThrow("no such session");
});

test("a session whose person has signed out stays so over a restart, until it would have expired", async () => {
  const lines: string[] = [];
  // Sign-outs use nothing else of files.
  const files = {
    read: () => lines,
    appendNow: (_: string, text: string) => void lines.push(text.trimEnd()),
  } as unknown as LineFiles;
  const { sessions, whole } = setup(undefined, new SignOuts(files));
  sessions.close(sender(whole));
  const restarted = setup(undefined, new SignOuts(files, 2000)).sessions;
  await expect(restarted.authenticate(sender(whole))).rejects.toThrow("has ended");
  const [nonce = ""] = lines[0]?.split(" ").slice(1) ?? [];
  expect([new SignOuts(files, 1000 + 13 * 3600_000).has(nonce), new SignOuts(files, 2000).has(nonce)]).toEqual([
    false,
    true,
  ]);
});

test("an address for one session needs the cookie of that session, and no binding", async () => {
  const { sessions, state, whole, cookie } = setup();
  const { host } = whole;
  const visitor = sessions.visitorOf(sender(whole));
  const other = sessions.open(caller, sender({ host }));
  const [foreign = ""] = other.setCookie.split(";");
  expect(await sessions.callerAt(sender({ host, cookie }), visitor)).toEqual(caller);
  expect(await sessions.callerAt(sender({ host, cookie: `${foreign}; ${cookie}` }), visitor)).toEqual(caller);
  for (const wrong of ["", foreign, `${cookie}0`])
    expect(await sessions.callerAt(sender({ host, cookie: wrong }), visitor)).toBeUndefined();
  state.now += 13 * 3600 * 1000;
  expect(await sessions.callerAt(sender({ host, cookie }), visitor)).toBeUndefined();
  state.now = 1000;
  sessions.close(sender(whole));
  expect(await sessions.callerAt(sender({ host, cookie }), visitor)).toBeUndefined();
});
