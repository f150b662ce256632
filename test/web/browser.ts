/** A real browser for tests of the dashboard. It collects whatever the page complains about. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import type { TestDaemon } from "../harness/daemon.ts";
import type { Undo } from "../harness/harness.ts";
import { sandkeepCommand } from "../harness/package.ts";
import { demand } from "../runner/needs.ts";

/** a name with names below it, for daemons whose ports of sandboxes are below it; no page of the dashboard needs another */
export const ownDomain = "sandkeep.test";
const names = [
  ...[ownDomain, `*.${ownDomain}`].map((name) => `MAP ${name} 127.0.0.1`),
  ...["MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1", "EXCLUDE *.localhost"],
].join(", ");

/** `flags` are further ones of Chromium */
export async function startBrowser(undo: Undo, flags: readonly string[] = []): Promise<Browser> {
  demand("the command chromium");
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    // Tests run as root, and nothing of a browser may leave this machine.
    args: ["--no-sandbox", `--host-resolver-rules=${names}`, ...flags],
  });
  undo.defer(() => browser.close());
  return browser;
}

export interface Watched {
  page: Page;
  /** errors on the console, exceptions, and violations of the content security policy */
  complaints: string[];
}

/** a page that is signed in, with the list of sandboxes */
export async function signedIn(browser: Browser, daemon: TestDaemon, options: BrowserContextOptions = {}) {
  const watched = await newPage(browser, options);
  await watched.page.goto(await signInLink(daemon));
  await watched.page.getByRole("button", { name: "New sandbox" }).first().waitFor();
  return watched;
}

export async function newPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Watched> {
  const context = await browser.newContext(options);
  // Long enough for a busy host, and short enough to see what a test waits for.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(`${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
      console.error(`violation of ${violatedDirective} by ${blockedURI}`),
    );
  });
  return { page, complaints };
}

/** the link that `sandkeep open` prints */
export async function signInLink({ url, key }: TestDaemon): Promise<string> {
  const env = { ...process.env, SANDKEEP_API_KEY: key };
  const { stdout } = await promisify(execFile)(sandkeepCommand(), ["open", "--url", url], { env });
  return stdout.trim();
}
