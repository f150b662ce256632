/** The page that gives a command line a key, in a real browser: under its content security policy, and with a session. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { daemonOfFile } from "../harness/daemon.ts";
import { newPage, signedIn, startBrowser } from "./browser.ts";

const daemon = daemonOfFile();

test("in a browser that is signed in to the dashboard, a click is enough; in another one, a key is", async () => {
  await using undo = new AsyncDisposableStack();
  const browser = await startBrowser(undo);
  const got: URLSearchParams[] = [];
  // What the command line does with the answer.
  const waiting = createServer((request, response) => {
    const answer = new URL(request.url ?? "/", "http://localhost").searchParams;
    if (request.url !== "/favicon.ico") got.push(answer);
    const state = { state: "success", email: answer.get("email") ?? "" };
    response.writeHead(302, { location: `${daemon().url}/docs/api/cli?${new URLSearchParams(state)}` }).end();
  }).listen(0, "127.0.0.1");
  undo.defer(() => void waiting.close());
  await once(waiting, "listening");
  const { port } = waiting.address() as AddressInfo; // it listens on a port
  const asking = `${daemon().url}/docs/api/cli?next=http://127.0.0.1:${port}`;

  const inside = await signedIn(browser, daemon());
  await inside.page.goto(asking);
  await inside.page.getByText("You are signed in to the team default").waitFor();
  expect(await inside.page.getByLabel("An API key").count()).toBe(0);
  await inside.page.getByRole("button", { name: "Create a key" }).click();
  await inside.page.getByText("The command line is signed in as default@localhost").waitFor();
  expect(inside.complaints).toEqual([]);

  const outside = await newPage(browser);
  await outside.page.goto(asking);
  await outside.page.getByLabel("An API key").fill(daemon().key);
  await outside.page.getByRole("button", { name: "Create a key" }).click();
  await outside.page.getByText("The command line is signed in as default@localhost").waitFor();
  expect(outside.complaints).toEqual([]);

  const tokens = got.map((each) => each.get("accessToken"));
  expect(new Set(tokens).size).toBe(2);
  for (const token of tokens) {
    const headers = { "x-api-key": token ?? "" };
    expect((await fetch(`${daemon().url}/v2/sandboxes`, { headers })).status).toBe(200);
  }
});
