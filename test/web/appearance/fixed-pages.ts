/**
 * The dashboard's real scripts and styles in a browser, with fixed answers, a fixed time and fixed fonts, so that two
 * pictures of a page differ only if the page does. There is no daemon: this file answers what the browser asks for.
 */

import { join } from "node:path";
import type { Browser, BrowserContext, Page, Route } from "playwright-core";
import { Assets } from "../../../src/api/dashboard/assets.ts";
import { pageHeaders, page as pageText } from "../../../src/api/dashboard/page.ts";
import { routes } from "../../../src/client/client.ts";
import type { OperationId } from "../../../src/client/types.ts";
import { root } from "../../harness/harness.ts";
import type { Look } from "../accessibility.ts";
import { fixedAnswers, fixedOutput } from "./fixed-answers.ts";
import { noon } from "./fixed-sandboxes.ts";

/** not a secret: it only makes the page ask who is signed in */
const binding = "pictures";
const origin = "http://pictures.localhost";
const files = new Assets({ modules: join(root, "src"), styles: join(root, "src/web") });

/** scripts/host-needs.mjs installs them, and they have not changed since 2016 */
export const fonts = { sans: '"DejaVu Sans"', mono: '"DejaVu Sans Mono"' };

export interface Shown extends Look {
  /** address below /ui/ */
  place: string;
  height?: number;
  /** how often timers run before the picture, for what is drawn over time */
  ticks?: number;
  /** pressed one after the other, at the end */
  keys?: readonly string[];
}

export class FixedPages {
  readonly page: Page;
  /** how often the timers of the present page have run */
  #tick = 0;
  #isSignedIn = true;

  static async open(browser: Browser): Promise<FixedPages> {
    const localStorage = [{ name: "sandkeep.binding", value: binding }];
    const context = await browser.newContext({
      timezoneId: "UTC",
      locale: "en-GB",
      reducedMotion: "reduce",
      storageState: { cookies: [], origins: [{ origin, localStorage }] },
    });
    context.setDefaultTimeout(60_000);
    const opened = new FixedPages(await context.newPage());
    await opened.#prepare(context);
    return opened;
  }

  private constructor(page: Page) {
    this.page = page;
  }

  async #prepare(context: BrowserContext): Promise<void> {
    await this.page.clock.setFixedTime(noon);
    await this.page.addInitScript(holdTimers);
    await context.route("**/*", (route) => this.#answer(route));
  }

  async show({ place, width, height = 720, colorScheme, ticks = 0, keys = [] }: Shown): Promise<void> {
    this.#tick = 0;
    this.#isSignedIn = place !== "sign-in";
    await this.page.setViewportSize({ width, height });
    await this.page.emulateMedia({ colorScheme });
    await this.page.goto(`${origin}/ui/${place}`);
    await this.page.locator("h1").first().waitFor({ state: "attached" });
    await this.page.evaluate(quiet);
    for (let count = 0; count < ticks; count++) {
      this.#tick++;
      await this.page.evaluate(runTimers);
      await this.page.evaluate(quiet);
    }
    for (const key of keys) await this.page.keyboard.press(key);
    await this.page.evaluate(quiet);
  }

  async #answer(route: Route): Promise<void> {
    const request = route.request();
    const { pathname, searchParams } = new URL(request.url());
    const [, hash = "", path = ""] = /^\/ui\/v\/(\w+)\/(.+)$/.exec(pathname) ?? [];
    if (hash !== "") {
      const file = files.find(hash, path);
      if (!file) return route.abort();
      const more = path === "web/tokens.css" ? fontStyles : "";
      return route.fulfill({ contentType: file.type, body: `${file.bytes}${more}` });
    }
    if (pathname === "/ui/session" && !this.#isSignedIn) return route.fulfill({ status: 401, json: {} });
    if (pathname === "/ui/session") {
      return route.fulfill({ json: { binding, team: "team_default", key: "key_1", admin: true, readOnly: false } });
    }
    if (pathname === "/ui/examples") return route.fulfill({ json: { examples: [] } });
    if (pathname.startsWith("/ui/")) return route.fulfill({ headers: pageHeaders, body: pageText(files.version()) });
    // A stream of events in which nothing happens.
    if (request.headers().accept === "text/event-stream") return;
    const id = operationOf(request.method(), pathname);
    if (id === "readOutput")
      return route.fulfill({ body: fixedOutput.map((line) => `${JSON.stringify(line)}\n`).join("") });
    const answer = id && fixedAnswers[id];
    if (!answer) throw new Error(`There is no fixed answer to ${request.method()} ${pathname}`);
    return route.fulfill({ json: answer(this.#tick, searchParams) });
  }
}

const fontStyles = `:root{--sans:${fonts.sans};--mono:${fonts.mono}}`;

function operationOf(method: string, path: string): OperationId | undefined {
  const found = Object.entries(routes).find(([, route]) => {
    const pattern = route.replaceAll(/\{\w+\}/g, "[^/]+").replace(" ", " /sandkeep/v1");
    return new RegExp(`^${pattern}$`).test(`${method} ${path}`);
  });
  return found?.[0] as OperationId | undefined; // the keys of the client's routes
}

/** What `holdTimers` leaves in a page. */
interface Held {
  /** requests and timeouts that are under way */
  open: Set<unknown>;
  intervals: Map<number, () => void>;
}

/**
 * Runs in the page, before its scripts: intervals run only when `runTimers` says so, short timeouts at once, and what is
 * under way is counted. So a picture shows the same on a slow machine as on a fast one.
 */
function holdTimers(): void {
  const { setTimeout: wait, clearTimeout: forget, fetch: ask } = globalThis;
  const held: Held = { open: new Set(), intervals: new Map() };
  const longest = 1000;
  let last = 0;
  Object.assign(globalThis, {
    held,
    setTimeout(work: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) {
      if (ms >= longest) return wait(work, ms, ...args);
      const id = wait(() => {
        held.open.delete(id);
        work(...args);
      }, 0);
      held.open.add(id);
      return id;
    },
    clearTimeout(id: number) {
      held.open.delete(id);
      forget(id);
    },
    setInterval(work: () => void) {
      held.intervals.set(++last, work);
      return last;
    },
    clearInterval: (id: number) => held.intervals.delete(id),
    async fetch(request: Request) {
      const isStream = request.headers?.get("accept") === "text/event-stream";
      const answer = ask(request);
      if (isStream) return answer;
      held.open.add(answer);
      return answer.finally(() => held.open.delete(answer));
    },
  });
}

/** runs in the page */
function runTimers(): void {
  const { held } = globalThis as unknown as { held: Held };
  for (const work of held.intervals.values()) work();
}

/** runs in the page: resolves when it has drawn a few frames in which nothing was under way */
async function quiet(): Promise<void> {
  const { held } = globalThis as unknown as { held: Held };
  for (let frames = 0; frames < 4; ) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    frames = held.open.size === 0 && document.querySelector(".waiting") === null ? frames + 1 : 0;
  }
}
