/**
 * The dashboard in Debian's Chromium, against a daemon with 10,000 sandboxes on record: how soon the first rows are there,
 * how long a change of tabs and the echo of a key take, how a list keeps up with changes, and the memory of a tab.
 *
 * Times of tasks are processor time of the page's main thread, which other programs of the host do not change.
 */

import { readFile } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { WebSocket } from "ws";
import { SandkeepClient } from "../../src/client/client.ts";
import { defaultProject, defaultTeam } from "../../src/core/access/access.ts";
import { startDaemon, type TestDaemon } from "../../test/harness/daemon.ts";
import type { Undo } from "../../test/harness/harness.ts";
import { signedIn, startBrowser } from "../../test/web/browser.ts";
import { median, quantile, type Series, table, verdict } from "../measure.ts";
import { fillStore } from "../store/rows.ts";
import { type Front, startFront } from "./front.ts";

const owner = { teamId: defaultTeam.id, projectId: defaultProject.id };
const name = "live";
/** how long changes of state are sent, in ms */
const flood = 10_000;

export async function benchWeb(undo: Undo, rows: number): Promise<string> {
  const front = await startFront(undo);
  const daemon = await startDaemon(undo, { SANDKEEP_PUBLIC_URL: front.url });
  front.daemon = daemon.url;
  // The daemon has made its tables and its project.
  await daemon.stop();
  await fillStore({ path: join(daemon.dataDir, "sandkeep.db") }, owner, rows);
  await daemon.start();
  const client = new SandkeepClient({ url: daemon.url, key: daemon.key });
  await client.call("createSandbox", { body: { name, timeout: 3_600_000, networkPolicy: "deny-all" } });
  const browser = await startBrowser(undo);
  const { page } = await signedIn(browser, { ...daemon, url: front.url });
  const before = loadavg()[0]?.toFixed(0);
  const report = [
    ...(await benchFirstRows(page, front.url)),
    ...(await benchTabs(page, front.url)),
    ...(await benchEcho(page, front.url, daemon, client)),
    ...(await benchOutput(browser, page, front.url, client)),
    ...(await benchFlood(browser, page, front, 1000, rows)),
    ...(await benchFlood(browser, page, front, 2000, rows)),
  ];
  return [`The dashboard with ${rows} sandboxes, load ${before} to ${loadavg()[0]?.toFixed(0)}`, ...report].join("\n");
}

async function benchFirstRows(page: Page, url: string): Promise<string[]> {
  const [rows, reference]: [Series, Series] = [
    { name: "list, from the address to its first rows", samples: [] },
    { name: "GET /health in the same tab", samples: [] },
  ];
  for (let round = 0; round < 15; round++) {
    await page.goto(`${url}/health`);
    reference.samples.push(await page.evaluate(() => performance.getEntriesByType("navigation")[0]?.duration ?? 0));
    await page.goto(`${url}/ui/sandboxes`, { waitUntil: "commit" });
    rows.samples.push(
      await page.evaluate(
        () =>
          new Promise<number>((resolve) => {
            const look = () => document.querySelector("tr[data-row]") !== null && resolve(performance.now());
            new MutationObserver(look).observe(document, { subtree: true, childList: true });
            look();
          }),
      ),
    );
  }
  const loaded = await page.evaluate(() => {
    const all = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
    const sum = (kind: RegExp) =>
      all.filter((each) => kind.test(each.name)).reduce((total, each) => total + each.encodedBodySize, 0) / 1000;
    return { scripts: sum(/\/ui\/v\/.*\.[tj]s$/), styles: sum(/\.css$/) };
  });
  return [
    table("the first view", [rows, reference]),
    verdict("first rows, median", median(rows.samples), 150, "ms"),
    `       everything that the page loads, the palette included: scripts ${loaded.scripts.toFixed(1)} kB, styles ${loaded.styles.toFixed(1)} kB`,
  ];
}

/** tabs that need no more than the daemon's answer, by their keys */
const tabKeys = ["2", "3", "4", "5", "6", "7", "8"];

async function benchTabs(page: Page, url: string): Promise<string[]> {
  await page.goto(`${url}/ui/sandboxes/${name}`);
  await page.getByRole("heading", { name }).waitFor();
  const first: Series = { name: "a tab for the first time, with its module", samples: [] };
  const later: Series = { name: "a tab that was open before", samples: [] };
  for (let round = 0; round < 8; round++) {
    for (const key of tabKeys) {
      await page.evaluate((wanted) => {
        const measured = new Promise<number>((resolve) => {
          const look = (start: number) => {
            const tab = document.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]');
            const isThere = tab?.dataset.key === wanted && document.querySelector("#tab .waiting") === null;
            if (isThere) resolve(performance.now() - start);
            else requestAnimationFrame(() => look(start));
          };
          addEventListener("keydown", ({ timeStamp }) => requestAnimationFrame(() => look(timeStamp)), { once: true });
        });
        Object.assign(globalThis, { measured });
      }, key);
      await page.keyboard.press(key);
      (round === 0 ? first : later).samples.push(await measured(page));
    }
  }
  return [
    "",
    table("a change of tabs, to the frame with its data", [first, later]),
    verdict("tab change, median", median(later.samples), 50, "ms"),
  ];
}

async function benchEcho(page: Page, url: string, daemon: TestDaemon, client: SandkeepClient): Promise<string[]> {
  await page.goto(`${url}/ui/sandboxes/${name}?tab=terminal`);
  await page.getByText("connected").waitFor();
  await page.locator(".xterm-rows").getByText("$").first().waitFor();
  await page.locator(".shell").click();
  const shown: Series = { name: "key to its echo on the screen", samples: [] };
  const reference: Series = { name: "the same over a WebSocket of Node", samples: [] };
  const raw = await rawTerminal(daemon, client);
  for (let round = 0; round < 100; round++) {
    await page.evaluate(() => {
      const measured = new Promise<number>((resolve) => {
        let start = 0;
        addEventListener("keydown", ({ timeStamp }) => (start = timeStamp), { once: true, capture: true });
        const observer = new MutationObserver(() => {
          if (start === 0) return;
          observer.disconnect();
          resolve(performance.now() - start);
        });
        const screen = document.querySelector(".xterm-rows");
        if (screen) observer.observe(screen, { subtree: true, childList: true, characterData: true });
      });
      Object.assign(globalThis, { measured });
    });
    await page.keyboard.press(round % 40 === 39 ? "Enter" : "a");
    shown.samples.push(await measured(page));
    reference.samples.push(await raw.echo());
  }
  raw.close();
  return [
    "",
    table("a terminal", [shown, reference], reference.name),
    verdict("key to echo, p95", quantile(shown.samples, 0.95), 30, "ms"),
    `       p95 of the reference ${quantile(reference.samples, 0.95).toFixed(1)} ms`,
  ];
}

/** what the page measures after a key: it begins to before the key is pressed, and tells afterwards */
function measured(page: Page): Promise<number> {
  return page.evaluate(() => (globalThis as unknown as { measured: Promise<number> }).measured);
}

async function rawTerminal(daemon: TestDaemon, client: SandkeepClient) {
  const body = { command: "cat", args: [], terminal: { rows: 24, columns: 80 } };
  const { id, sessionId } = await client.call("startCommand", { params: { sandbox: name }, body });
  const address = `${daemon.url.replace("http", "ws")}/sandkeep/v1/sessions/${sessionId}/commands/${id}/terminal`;
  const socket = new WebSocket(address, ["sandkeep"], { headers: { authorization: `Bearer ${daemon.key}` } });
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  return {
    async echo(): Promise<number> {
      const start = performance.now();
      const answer = new Promise((resolve) => socket.once("message", resolve));
      socket.send(Buffer.from("a"));
      await answer;
      return performance.now() - start;
    },
    close: () => socket.close(),
  };
}

async function benchOutput(browser: Browser, page: Page, url: string, client: SandkeepClient): Promise<string[]> {
  const body = { command: "sh", args: ["-c", "seq 1 99999999 | head -c 50000000; echo; echo all-of-it"] };
  const { id } = await client.call("startCommand", { params: { sandbox: name }, body });
  await client.call("waitForCommand", { params: { sandbox: name, command: id } });
  await page.goto(`${url}/ui/sandboxes/${name}?tab=commands`);
  await page.getByRole("heading", { name }).waitFor();
  const before = await tabMemory(browser, page);
  await page.goto(`${url}/ui/sandboxes/${name}?tab=commands&command=${id}`);
  await page.getByLabel("Output").getByText("all-of-it").waitFor({ timeout: 300_000 });
  const after = await tabMemory(browser, page);
  return [
    "",
    verdict("private memory of the tab after 50 MB of output", after, 150, "MB"),
    `       before it was opened ${before.toFixed(0)} MB`,
  ];
}

/** private memory of the largest renderer after its garbage is collected, in MB */
async function tabMemory(browser: Browser, page: Page): Promise<number> {
  const tab = await page.context().newCDPSession(page);
  await tab.send("HeapProfiler.collectGarbage");
  await tab.detach();
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  const sizes = processInfo
    .filter(({ type }) => type === "renderer")
    .map(async ({ id }) => {
      const text = await readFile(`/proc/${id}/smaps_rollup`, "utf8").catch(() => "");
      return [...text.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce((sum, [, kb]) => sum + Number(kb) / 1000, 0);
    });
  return Math.max(...(await Promise.all(sizes)));
}

/** the name of a sandbox of bench/store/rows.ts */
function filledName(i: number): string {
  return `name-${(i * 611_953) % 1_000_003}`;
}

const states = ["running", "snapshotting", "stopping", "pending"];

/** so many changes a second to an open list */
async function benchFlood(browser: Browser, page: Page, front: Front, rate: number, rows: number): Promise<string[]> {
  await page.goto(`${front.url}/ui/sandboxes`);
  await page.locator("tr[data-row]").first().waitFor();
  await page.waitForFunction(() => !/^\d+ of (0|100|1100)$/.test(document.querySelector(".res")?.textContent ?? ""));
  while (front.streams() === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  const names = await page.locator("tr[data-row] th a").allInnerTexts();
  const [watched = "", ...others] = names;
  const link = `a[href="/ui/sandboxes/${watched}"]`;
  await page.evaluate((selector) => {
    const seen: [number, string][] = [];
    Object.assign(globalThis, { seen });
    new MutationObserver(() => {
      const word = document.querySelector(`tr:has(${selector}) .mark`)?.getAttribute("aria-label") ?? "";
      if (word !== seen.at(-1)?.[1]) seen.push([Date.now(), word]);
    }).observe(document.body, { subtree: true, childList: true, attributes: true });
  }, link);
  await browser.startTracing(page, { categories: ["toplevel", "__metadata"] });
  const marked: [number, string][] = [];
  const begin = performance.now();
  let sent = 0;
  let turn = 0;
  while (performance.now() - begin < flood) {
    const due = Math.floor(((performance.now() - begin) / 1000) * rate);
    for (; sent < due; sent++) {
      const sandbox = sent % 50 === 0 ? (others[sent % others.length] ?? "") : filledName((sent * 7919) % rows);
      front.send({ type: `session.${states[sent % 4]}`, sandbox, sessionId: "sbx_0", sandboxId: "sb_0" });
    }
    if (performance.now() - begin > turn * 1000) {
      const state = states[turn++ % 4] ?? "";
      front.send({ type: `session.${state}`, sandbox: watched, sessionId: "sbx_0", sandboxId: "sb_0" });
      marked.push([Date.now(), state]);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const last = marked.at(-1)?.[1] ?? "";
  await page.waitForFunction(
    (word) => (globalThis as unknown as { seen: [number, string][] }).seen.some(([, each]) => each === word),
    last,
  );
  const trace = await browser.stopTracing();
  const seen = await page.evaluate(() => (globalThis as unknown as { seen: [number, string][] }).seen);
  const lags = marked.flatMap(([at, state]) => {
    const [shown] = seen.find(([when, word]) => when >= at && word === state) ?? [];
    return shown === undefined ? [] : [shown - at];
  });
  const tasks = mainTasks(trace);
  const busy = tasks.reduce((sum, each) => sum + each, 0);
  const drawn = await page.locator("tr[data-row]").count();
  return [
    "",
    `${rate} changes a second for ${flood / 1000} s: ${sent} sent, ${drawn} rows in the document, the main thread was busy for ${(busy / 1000).toFixed(1)} s`,
    verdict("longest task of the page, processor time", Math.max(...tasks), 50, "ms"),
    `       tasks above 50 ms: ${tasks.filter((each) => each > 50).length} of ${tasks.length}`,
    `       ${lags.length} of ${marked.length} changes of one row were seen, after ${median(lags).toFixed(0)} ms (median), ${Math.max(...lags).toFixed(0)} ms (most), ${lags.at(-1)} ms (the last)`,
  ];
}

/** processor time of each task of pages' main threads, in ms */
function mainTasks(trace: Buffer): number[] {
  const { traceEvents } = JSON.parse(trace.toString()) as {
    traceEvents: { name: string; ph: string; pid: number; tid: number; tdur?: number; args?: { name?: string } }[];
  };
  const thread = ({ pid, tid }: { pid: number; tid: number }) => `${pid} ${tid}`;
  const main = new Set(
    traceEvents.filter(({ name: kind, args }) => kind === "thread_name" && args?.name === "CrRendererMain").map(thread),
  );
  return traceEvents
    .filter((each) => each.ph === "X" && each.name.endsWith("RunTask") && main.has(thread(each)))
    .map(({ tdur = 0 }) => tdur / 1000);
}
