/** Every place of the dashboard: its pages, and what opens on them, in a project that has something for each to show. */

import type { Browser, Page } from "playwright-core";
import { SandkeepClient } from "../../src/client/client.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { newPage, signedIn, type Watched } from "./browser.ts";

/** who looks: somebody who is signed in, the same in a project without sandboxes, or somebody without a session */
type Visitor = "member" | "newcomer" | "stranger";

export interface Place {
  name: string;
  /** below /ui/ */
  path: string;
  visitor?: Visitor;
  /** opens what is on the page */
  open?: (page: Page) => Promise<unknown>;
  /** the only width of the window in which it exists, in pixels */
  width?: number;
}

const tabs = ["terminal&beside=egress", "commands", "files", "ports", "snapshots", "egress", "usage", "events", "use"];
const paths = [
  "overview",
  "sandboxes",
  ...tabs.map((tab) => `sandboxes/desk?tab=${tab}`),
  ...["snapshots", "images", "drives", "egress", "usage", "keys", "events", "audit", "doctor"],
  ...["nowhere", "sandboxes/nothing"],
];

const phone = 390;
const desk = "sandboxes/desk";

export const places: readonly Place[] = [
  ...paths.map((path) => ({ name: path, path })),
  { name: "sign-in", path: "", visitor: "stranger" },
  { name: "empty overview", path: "overview", visitor: "newcomer" },
  { name: "empty list", path: "sandboxes", visitor: "newcomer" },
  { name: "keys of the page", path: "sandboxes", open: byKey("?", "Keys") },
  { name: "palette", path: "sandboxes", open: byKey("Control+k", "Go to, or do") },
  { name: "new sandbox", path: "sandboxes", open: byKey("n", "New sandbox") },
  { name: "columns", path: "sandboxes", open: byKey("c", "Columns") },
  { name: "more pages", path: "sandboxes", width: phone, open: opens("More", "More") },
  { name: "selected sandboxes", path: "sandboxes", open: choose },
  {
    name: "question before several are deleted",
    path: "sandboxes",
    open: then(choose, opens("Delete…", "Delete sandboxes")),
  },
  { name: "all actions", path: desk, open: byKey(".", "Actions") },
  {
    name: "question before a sandbox is deleted",
    path: desk,
    open: then(byKey(".", "Actions"), opens("Delete…", "Delete desk")),
  },
  { name: "tape as a table", path: desk, open: (page) => page.getByText("Time line as a table").click() },
  { name: "question before a paste", path: `${desk}?tab=terminal`, open: paste },
  { name: "allowing a connection", path: `${desk}?tab=egress`, open: allow },
  { name: "file", path: `${desk}?tab=files&folder=/tmp/page`, open: file },
  { name: "editor", path: `${desk}?tab=files&folder=/tmp/page`, open: then(file, press("Edit")) },
  { name: "difference of a snapshot", path: `${desk}?tab=snapshots`, open: compare },
  { name: "new key", path: "keys", open: then(nameKey, opens("Create", "The new key")) },
];

/** makes what the places show; returns the key of a project that has nothing */
export async function furnish({ url, key }: TestDaemon): Promise<string> {
  const client = new SandkeepClient({ url, key });
  const params = { sandbox: "desk" };
  const body = { name: "desk", tags: { suite: "web" }, networkPolicy: "deny-all", ports: [3000], timeout: 3_600_000 };
  await client.call("createSandbox", { body });
  for (const line of ["getent hosts refused.example.com", "echo wrong >&2; exit 3"]) {
    const { id } = await client.call("startCommand", { params, body: { command: "sh", args: ["-c", line] } });
    await client.call("waitForCommand", { params: { ...params, command: id } });
  }
  const { id } = await client.call("createSnapshot", { params, body: { name: "first" } });
  await client.call("createImageFromSnapshot", { params: { snapshot: id }, body: { name: "own" } });
  await client.call("writeFile", { params, query: { path: "/tmp/page/read.me" }, bytes: "text\n" });
  await client.call("putDrive", { params: { drive: "cache" }, body: {} });
  await client.call("createProject", { body: { name: "empty" } });
  return (await client.call("createKey", { body: { name: "newcomer", project: "empty" } })).secret;
}

/** shows every place, and calls `look` there; returns what the pages complained about. `script` is in all of them */
export async function visitPlaces(
  browser: Browser,
  daemon: TestDaemon,
  newcomer: string,
  script: string,
  look: (page: Page, place: Place, index: number) => Promise<unknown>,
): Promise<string[]> {
  const options = { reducedMotion: "reduce" } as const;
  const enter: Record<Visitor, () => Promise<Watched>> = {
    member: () => signedIn(browser, daemon, options),
    newcomer: () => signedIn(browser, { ...daemon, key: newcomer }, options),
    stranger: () => newPage(browser, options),
  };
  const visitors = new Map<Visitor, Watched>();
  for (const [index, place] of places.entries()) {
    const { visitor = "member", path, width, open } = place;
    const known = visitors.get(visitor);
    const watched = known ?? (await enter[visitor]());
    visitors.set(visitor, watched);
    const { page } = watched;
    if (!known) await page.addInitScript(script);
    // A phone's list has no boxes to tick, so each place is opened in a wide window.
    await page.setViewportSize({ width: width ?? 1280, height: 800 });
    await page.goto(`${daemon.url}/ui/${path}`);
    await page.locator("h1, .empty").first().waitFor({ state: "attached" });
    await page.waitForFunction(() => document.querySelector(".waiting") === null);
    await open?.(page);
    await look(page, place, index);
  }
  const watched = [...visitors.values()];
  for (const { page } of watched) await page.context().close();
  // Browsers say of every answer that something is not there.
  return watched.flatMap(({ complaints }) => complaints).filter((each) => !each.includes("/sandboxes/nothing"));
}

type Opening = (page: Page) => Promise<unknown>;

function then(...steps: Opening[]): Opening {
  return async (page) => {
    for (const step of steps) await step(page);
  };
}

function byKey(key: string, title: string): Opening {
  return async (page) => {
    await page.keyboard.press(key);
    await page.getByRole("dialog", { name: title }).waitFor();
  };
}

function press(name: string): Opening {
  return (page) => page.getByRole("button", { name, exact: true }).first().click();
}

function opens(name: string, title: string): Opening {
  return async (page) => {
    const inside = page.locator("dialog[open], .bulk, .bottom, .main").getByRole("button", { name, exact: true });
    await inside.first().click();
    await page.getByRole("dialog", { name: title, exact: true }).waitFor();
  };
}

async function choose(page: Page): Promise<void> {
  await page.getByLabel("Select desk").check();
  await page.getByRole("toolbar", { name: "Selected sandboxes" }).waitFor();
}

async function paste(page: Page): Promise<void> {
  await page.getByText("connected").waitFor();
  await page.locator(".shell").evaluate((element) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "one\ntwo\n");
    element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  });
  await page.getByRole("dialog", { name: "Paste several lines" }).waitFor();
}

async function allow(page: Page): Promise<void> {
  await press("Allow…")(page);
  await page.getByText("+ refused.example.com").waitFor();
}

async function file(page: Page): Promise<void> {
  await page.getByRole("button", { name: "read.me" }).click();
  await page.getByLabel("Content").getByText("text").waitFor();
}

async function compare(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Diff" }).first().click();
  await page.getByRole("region", { name: "Difference" }).getByText("/tmp/page/read.me").waitFor();
}

async function nameKey(page: Page): Promise<void> {
  await page.getByRole("button", { name: "New key…" }).click();
  await page.getByRole("dialog", { name: "New key" }).getByLabel("Name").fill("another");
}
