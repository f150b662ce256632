/**
 * Pages that attack the dashboard of a person who is signed in: one that a sandbox serves on its port, as a sibling name of
 * the daemon's and as a name of another site, and one on another port of the daemon's address.
 */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { attack, dashboardsIn, watchSent } from "./attacks.ts";
import { newPage, ownDomain, signInLink, startBrowser } from "./browser.ts";

const daemon = daemonOfFile({ SANDKEEP_DOMAIN: ownDomain });
const undo = new AsyncDisposableStack();
const params = { sandbox: "desk" };
let browser: Browser;
let client: SandkeepClient;
/** where the sandbox serves a page */
let ofSandbox: string;
/** where this test serves one, and the Set-Cookie header of its answers */
let neighbour: string;
let neighbourCookie = "";
/** path of the terminal of a shell */
let terminal: string;

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
  await client.call("createSandbox", { body: { name: "desk", networkPolicy: "deny-all", timeout: 3_600_000 } });
  ofSandbox = (await client.call("openPort", { params: { ...params, port: "3000" } })).url ?? "";
  const served = `require("http").createServer((_, r) => r.setHeader("content-type", "text/html").end("<p>attack</p>")).listen(3000)`;
  await client.call("startCommand", { params, body: { command: "node", args: ["-e", served] } });
  const shell = { command: "bash", args: ["-i"], terminal: { rows: 24, columns: 80 } };
  const { id, sessionId } = await client.call("startCommand", { params, body: shell });
  terminal = `/sandkeep/v1/sessions/${sessionId}/commands/${id}/terminal`;
  const server = createServer((_, response) => {
    if (neighbourCookie !== "") response.setHeader("set-cookie", neighbourCookie);
    response.setHeader("content-type", "text/html").end("<p>attack</p>");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.defer(() => void server.close());
  neighbour = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => undo.disposeAsync());

/** a page of the dashboard below `home`, signed in */
async function victimAt(home: string): Promise<Page> {
  const { page } = await newPage(browser);
  await page.goto((await signInLink(daemon())).replace(daemon().url, home));
  await page.getByRole("button", { name: "New sandbox" }).first().waitFor();
  return page;
}

/** a valid cookie of this daemon, of a session of the attacker's own key */
async function cookieOfAttacker(home: string): Promise<string> {
  const { secret } = await client.call("createKey", { body: { name: "attacker" } });
  const { url } = daemon();
  const headers = { origin: url, "content-type": "application/json" };
  const answer = await fetch(`${url}/ui/session`, { method: "POST", headers, body: JSON.stringify({ key: secret }) });
  const [cookie = ""] = answer.headers.get("set-cookie")?.split(";") ?? [];
  return cookie.replace(/^sandkeep_\d+/, `sandkeep_${new URL(home).port}`);
}

async function open(page: Page, place: string): Promise<void> {
  const isThere = async () => {
    await page.goto(place);
    return page.getByText("attack").count();
  };
  await expect.poll(isThere).toBe(1);
}

const cases = {
  "a sandbox's port on a sibling name": {
    home: () => daemon().url.replace("127.0.0.1", ownDomain),
    from: () => ofSandbox,
    domain: ownDomain,
    // Browsers heed the opener policy only over HTTPS and on this host. The window shows nothing of its page either way.
    held: "only its window",
  },
  "another port of the daemon's address": {
    home: () => daemon().url,
    from: () => neighbour,
    domain: "",
    held: "lost",
  },
  "a sandbox's port on a name of another site": {
    home: () => daemon().url,
    from: () => ofSandbox.replace(ownDomain, "localhost"),
    domain: "localhost",
    held: "lost",
  },
};

test.each(Object.entries(cases))(
  "%s reads, changes, opens and frames nothing",
  async (_, { home, from, domain, held }) => {
    const page = await victimAt(home());
    const headers = (await page.goto(`${home()}/ui/overview`))?.headers();
    expect(headers?.["content-security-policy"]).toContain("frame-ancestors 'none'");
    expect(headers?.["cross-origin-opener-policy"]).toBe("same-origin");
    await page.getByRole("button", { name: "New sandbox" }).first().waitFor();
    const { key, binding } = await page.evaluate(sessionOfPage);
    const kept = await page.context().cookies();
    expect(kept).toMatchObject([{ httpOnly: true, sameSite: "Strict" }]);
    const cookie = kept.map(({ name, value }) => `${name}=${value}`).join();
    const sandboxes = (await client.call("listSandboxes", {})).sandboxes.length;
    await open(page, from());
    const sent = await watchSent(page, `${home()}/sandkeep/`);
    const cookies = [`${cookie.split("=")[0]}=forged`, await cookieOfAttacker(home())];
    expect(await page.evaluate(attack, { home: home(), terminal, binding, cookies, domain })).toEqual({
      read: ["blocked", "blocked"],
      changed: ["sent", "blocked"],
      script: "blocked",
      sockets: ["refused", "refused"],
      held,
    });
    expect(page.frames().length).toBeGreaterThan(1);
    expect(await dashboardsIn(page)).toBe(0);

    // Only a page of the same site can make the browser send the cookie, and then it is of no use.
    const withCookie = sent().filter((each) => each.cookie.includes(cookie));
    const isSameSite = domain !== "localhost";
    expect(withCookie.map(({ what }) => what.split(" ")[0]).sort()).toEqual(
      isSameSite ? ["GET", "GET", "POST", "POST"] : [],
    );
    for (const { what, status } of withCookie) expect({ what, status }).toEqual({ what, status: 401 });
    const made = (await client.call("listSandboxes", {})).sandboxes.length;
    expect(made).toBe(sandboxes);
    await expect(client.send("readFile", { params, query: { path: "/tmp/pwned" } })).rejects.toThrow("/tmp/pwned");

    // The session is as it was, whatever cookies the page has left.
    await page.goto(`${home()}/ui/sandboxes`);
    await page.getByRole("row").filter({ hasText: "desk" }).waitFor();
    expect(await page.evaluate(sessionOfPage)).toMatchObject({ key });
    await page.context().close();
  },
);

test("a neighbour that overwrites the cookie ends the session, and never puts its own in its place", async () => {
  const page = await victimAt(daemon().url);
  neighbourCookie = `${await cookieOfAttacker(daemon().url)}; Path=/; HttpOnly`;
  await open(page, neighbour);
  neighbourCookie = "";
  await page.goto(`${daemon().url}/ui/sandboxes`);
  await page.getByLabel("Paste an API key").waitFor();
  await page.context().close();
});

test("the page of a port opens without a hold on the dashboard", async () => {
  const home = daemon().url.replace("127.0.0.1", ownDomain);
  const page = await victimAt(home);
  await page.goto(`${home}/ui/sandboxes/desk?tab=ports`);
  const link = page.getByRole("link", { name: ofSandbox });
  const [opened] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
  await opened.getByText("attack").waitFor();
  expect(await opened.evaluate(() => [opener, document.referrer])).toEqual([null, ""]);
  await page.context().close();
});

test("neither half of a session opens anything alone, and both only for the dashboard's own pages", async () => {
  const { url } = daemon();
  const page = await victimAt(url);
  const { binding } = await page.evaluate(sessionOfPage);
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  await page.context().close();
  const ask = async (method: string, headers: Record<string, string>) =>
    (await fetch(`${url}/sandkeep/v1/sandboxes`, { method, headers, ...(method === "POST" && { body: "not json" }) }))
      .status;
  const session = { cookie, "x-sandkeep-session": binding };
  expect(await ask("GET", session)).toBe(200);
  expect(await ask("GET", { cookie })).toBe(401);
  expect(await ask("GET", { "x-sandkeep-session": binding })).toBe(401);
  expect(await ask("POST", session)).toBe(403);
  expect(await ask("POST", { ...session, origin: new URL(ofSandbox).origin })).toBe(403);
  expect(await ask("POST", { ...session, origin: url })).toBe(400);
  const upgraded = (headers: Record<string, string>, protocols: string[]) =>
    new Promise((resolve) => {
      const socket = new WebSocket(`${url.replace("http", "ws")}${terminal}`, protocols, { headers });
      socket.on("unexpected-response", (_, { statusCode }) => resolve(statusCode)).on("error", () => undefined);
      socket.on("open", () => {
        resolve(101);
        socket.close();
      });
    });
  const both = ["sandkeep", `sandkeep.session.${binding}`];
  expect(await upgraded({ cookie, origin: url }, both)).toBe(101);
  expect(await upgraded({ cookie, origin: url }, ["sandkeep"])).toBe(401);
  expect(await upgraded({ origin: url }, both)).toBe(401);
  for (const origin of [neighbour, ofSandbox]) {
    expect(await upgraded({ cookie, origin: new URL(origin).origin }, both)).toBe(403);
  }
});

/** runs in a page of the dashboard: whose session it has, and what its requests carry */
async function sessionOfPage(): Promise<{ key: string; binding: string }> {
  const binding = localStorage.getItem("sandkeep.binding") ?? "";
  const answer = await fetch("/ui/session", { headers: { "x-sandkeep-session": binding } });
  return { ...(await answer.json()), binding };
}
