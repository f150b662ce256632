/** Many tabs of one browser: they share one stream of events, also when the tab that reads it closes or the daemon restarts. */

import type { Browser, BrowserContext, Page } from "playwright-core";
import { expect } from "vitest";
import type { SandkeepClient } from "../../src/client/client.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { signedIn } from "./browser.ts";

/** more than the connections that a browser opens to a host over HTTP/1.1 */
const count = 8;

/** leaves no sandbox behind */
export async function expectSharedStream(browser: Browser, daemon: TestDaemon, client: SandkeepClient): Promise<void> {
  const { page: first } = await signedIn(browser, daemon);
  const context = first.context();
  const streams = openStreams(context);
  const create = (name: string) =>
    client.call("createSandbox", { body: { name, persistent: false, networkPolicy: "deny-all" } });
  await create("before");
  const pages = [first];
  while (pages.length < count) pages.push(await context.newPage());
  for (const page of pages) await page.goto(`${daemon.url}/ui/sandboxes`);
  await all(pages, (page) => state(page, "before", "running").waitFor());
  await create("shared");
  await all(pages, (page) => state(page, "shared", "running").waitFor());
  expect(streams.size).toBe(1);

  // Whichever tab reads the stream, it is among these.
  const [reader] = [...streams].map((page) => pages.indexOf(page));
  expect(reader).toBeGreaterThanOrEqual(0);
  await pages.splice(reader ?? 0, 1)[0]?.close();
  await client.call("stopSession", { params: { sandbox: "shared" } });
  await all(pages, (page) => state(page, "shared", "stopped").waitFor());
  expect(streams.size).toBe(1);

  // A shell in one of them, and the end of the daemon in the middle of its stream.
  const [shell, ...rest] = pages;
  if (!shell) throw new Error("There is no tab left");
  await shell.goto(`${daemon.url}/ui/sandboxes/before?tab=terminal`);
  await shell.getByText("connected").waitFor();
  await shell.keyboard.type("echo be''fore\n");
  const screen = shell.locator(".shell .xterm-rows");
  await screen.getByText("before", { exact: true }).waitFor();
  await daemon.kill9();
  await all(rest, (page) => page.getByText(/^no answer for/).waitFor());
  for (const page of rest) expect(await row(page, "before").count()).toBe(1);
  await daemon.start();
  await all(rest, (page) => page.getByText("live", { exact: true }).waitFor());
  await create("after");
  await all(rest, (page) => state(page, "after", "running").waitFor());
  await shell.getByText("connected").waitFor();
  await shell.keyboard.type("echo af''ter\n");
  await screen.getByText("after", { exact: true }).waitFor();
  expect(await screen.getByText("before", { exact: true }).count()).toBe(1);

  // Another tab continues the same shell, and can begin one of its own.
  const [page] = rest;
  if (!page) throw new Error("There is no tab left");
  await page.goto(`${daemon.url}/ui/sandboxes/before?tab=terminal`);
  await page.locator(".shell .xterm-rows").getByText("after", { exact: true }).waitFor();
  await page.getByRole("button", { name: "New shell" }).click();
  await page.getByRole("button", { name: "2 bash", pressed: true }).waitFor();

  // No event is lost, and none is there twice.
  await page.getByRole("link", { name: "Events" }).click();
  const events = page.getByRole("row").filter({ hasText: "after" });
  for (const type of ["sandbox.created", "session.pending", "session.running"]) {
    await events.filter({ hasText: type }).waitFor();
    expect(await events.filter({ hasText: type }).count()).toBe(1);
  }
  for (const sandbox of ["before", "shared", "after"]) await client.call("deleteSandbox", { params: { sandbox } });
  const [last] = rest.slice(-1);
  await row(last ?? page, "after").waitFor({ state: "detached" });
  await context.close();
}

/** the tabs whose stream of events is open, kept up to date */
function openStreams(context: BrowserContext): Set<Page> {
  const open = new Set<Page>();
  const isStream = (url: string, accept: string | undefined) =>
    url.includes("/sandkeep/v1/events") && accept === "text/event-stream";
  context.on("request", (request) => {
    if (isStream(request.url(), request.headers().accept)) open.add(request.frame().page());
  });
  const ended = (request: { url(): string; headers(): Record<string, string>; frame(): { page(): Page } }) => {
    if (isStream(request.url(), request.headers().accept)) open.delete(request.frame().page());
  };
  context.on("requestfailed", ended);
  context.on("requestfinished", ended);
  context.on("page", (page) => page.on("close", () => open.delete(page)));
  for (const page of context.pages()) page.on("close", () => open.delete(page));
  return open;
}

function row(page: Page, name: string) {
  return page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
}

function state(page: Page, name: string, word: string) {
  return row(page, name).getByRole("img", { name: word });
}

async function all(pages: readonly Page[], work: (page: Page) => Promise<unknown>): Promise<void> {
  await Promise.all(pages.map(work));
}
