/** Every page of the dashboard in every width and theme. The quick tests look at each page in one of them. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { looks, problemsOfPages } from "./accessibility.ts";
import { startBrowser } from "./browser.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

beforeAll(async () => {
  const client = new SandkeepClient({ url: daemon().url, key: daemon().key });
  const params = { sandbox: "desk" };
  const body = { name: "desk", tags: { suite: "web" }, networkPolicy: "deny-all", ports: [3000], timeout: 3_600_000 };
  await client.call("createSandbox", { body });
  for (const line of ["getent hosts refused.example.com", "echo wrong >&2; exit 3"]) {
    const { id } = await client.call("startCommand", { params, body: { command: "sh", args: ["-c", line] } });
    await client.call("waitForCommand", { params: { ...params, command: id } });
  }
  await client.call("createSnapshot", { params, body: { name: "first" } });
});

test("every page is accessible in both themes and three widths, and never scrolls sideways", async () => {
  const browser = await startBrowser(undo);
  expect(await problemsOfPages(browser, daemon(), () => looks)).toEqual([]);
}, 1_200_000);
