/** The dashboard in a real browser, against a real daemon. */

import { readFile } from "node:fs/promises";
import { cpus } from "node:os";
import type { Browser, Page, WebSocketRoute } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { newPage, signedIn, signInLink, startBrowser } from "./browser.ts";
import { expectChoosableColumns } from "./columns.ts";
import { reach, use } from "./keyboard.ts";
import { expectReadableOnPhone } from "./phone.ts";
import { takePictures } from "./pictures.ts";
import { expectSharedStream } from "./tabs.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
let browser: Browser;
let client: SandkeepClient;

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
});
afterAll(() => undo.disposeAsync());

/** text that would run, or break out of markup, if a page took it for anything but text */
const hostile = `"><img src=x onerror=globalThis.pwned=1><script>globalThis.pwned=1</script>\u202e\u0007`;

async function expectHarmless(page: Page): Promise<void> {
  expect(await page.evaluate(() => "pwned" in globalThis)).toBe(false);
}

test("a link signs in once, and then the key does", async () => {
  const link = await signInLink(daemon());
  const { page, complaints } = await newPage(browser);
  await page.goto(link);
  await page.getByText("There is no sandbox yet").waitFor();
  expect(new URL(page.url()).hash).toBe("");
  // The palette comes last, after all that people wait for.
  await expect.poll(async () => (await page.evaluate(loaded)).names).toContain("palette");
  const { scripts, styles } = await page.evaluate(loaded);
  expect(scripts).toBeGreaterThan(20_000);
  expect(scripts).toBeLessThan(40_000);
  expect(styles).toBeGreaterThan(4000);
  expect(styles).toBeLessThan(8000);
  await page.reload();
  await page.getByText("There is no sandbox yet").waitFor();
  expect(complaints).toEqual([]);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Paste an API key").waitFor();

  const again = await newPage(browser);
  await again.page.goto(link);
  await again.page.getByText("the link was used before").waitFor();
  await again.page.getByLabel("Paste an API key").fill("sk_wrong");
  await again.page.keyboard.press("Enter");
  await again.page.getByText("no team has this key").waitFor();
  await again.page.getByLabel("Paste an API key").fill(daemon().key);
  await again.page.keyboard.press("Enter");
  await again.page.getByText("There is no sandbox yet").waitFor();

  // A link of another key, which anybody may have sent, asks before it replaces the session.
  const { secret } = await client.call("createKey", { body: { name: "other" } });
  const other = await signInLink({ ...daemon(), key: secret });
  await again.page.goto(`${daemon().url}/ui/sandboxes`);
  // The second time it is pasted into the open page.
  for (const _ of ["first", "second"]) {
    await again.page.goto(other);
    await again.page.getByRole("dialog", { name: "Replace your session?" }).getByText("and the link is for").waitFor();
    await again.page.getByRole("button", { name: "Cancel" }).click();
  }
  await again.page.getByText("There is no sandbox yet").waitFor();
  await Promise.all([page, again.page].map((each) => each.context().close()));
});

test("the list is live, and shows hostile tags as text", async () => {
  const { page, complaints } = await signedIn(browser, daemon());
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await client.call("createSandbox", { body: { name: "lively", tags: { evil: hostile }, networkPolicy: "deny-all" } });
  const row = page.getByRole("row").filter({ hasText: "lively" });
  await row.getByRole("img", { name: "running" }).waitFor();
  await row.getByText("<script>").waitFor();
  expect(await row.getByText("\\u{202e}").count()).toBe(1);
  await page.getByLabel("Filter sandboxes").fill("state:stopped");
  await page.getByText("0 of 1").waitFor();
  await page.getByText("No sandbox matches the filter").waitFor();
  await page.getByRole("button", { name: "Save view" }).click();
  await page.getByRole("link", { name: "state:stopped 0" }).waitFor();
  await page.getByRole("button", { name: "Forget the view" }).click();
  await page.getByLabel("Filter sandboxes").fill("");
  await client.call("stopSession", { params: { sandbox: "lively" } });
  await row.getByRole("img", { name: "stopped" }).waitFor();
  await client.call("deleteSandbox", { params: { sandbox: "lively" }, query: { snapshots: true } });
  await row.waitFor({ state: "detached" });
  await expectHarmless(page);
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("the columns of the list can be chosen, and stay chosen in this browser", async () => {
  await expectChoosableColumns(browser, daemon(), client);
});

test("the overview shows how busy the host is, again and again, to admin keys only", async () => {
  const { page, complaints } = await signedIn(browser, daemon());
  await page.goto(`${daemon().url}/ui/overview`);
  const tile = (title: string) => page.locator(".figures div").filter({ has: page.getByText(title, { exact: true }) });
  await tile("host processors")
    .getByText(new RegExp(`^\\d+(\\.\\d)? / ${cpus().length} · load \\d+\\.\\d$`))
    .waitFor();
  const { memory } = await client.call("getCapacity");
  const total = Number((memory.total / 2 ** 30).toFixed(1));
  await tile("host memory").getByText(`/ ${total} GiB`).waitFor();
  for (const title of ["host disk", "store"])
    await tile(title)
      .getByText(/^[\d.]+ .B \/ [\d.]+ .B$/)
      .waitFor();
  // A line needs two measurements.
  await tile("host processors").locator("polyline").waitFor({ state: "attached" });
  expect(complaints).toEqual([]);

  const { secret } = await client.call("createKey", { body: { name: "no admin" } });
  const other = await signedIn(browser, { ...daemon(), key: secret });
  await other.page.goto(`${daemon().url}/ui/overview`);
  await other.page.locator(".figures").getByText("running", { exact: true }).waitFor();
  expect(await other.page.getByText("host processors").count()).toBe(0);
  expect(other.complaints).toEqual([]);
  await Promise.all([page, other.page].map((each) => each.context().close()));
});

test("a person makes, uses, copies and deletes a sandbox with the keyboard alone", async () => {
  const { page, complaints } = await newPage(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  await page.goto(`${daemon().url}/ui/`);
  await page.getByLabel("Paste an API key").waitFor();
  await page.keyboard.type(daemon().key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "There is no sandbox yet" }).waitFor();
  await page.getByLabel("Lines for curl").waitFor();
  await page.keyboard.press("n");
  await page.keyboard.type("desk");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.type("deny-all");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "desk" }).waitFor();

  // The terminal: colours by value, and the same shell after a reload.
  await page.keyboard.press("t");
  const screen = page.locator(".shell .xterm-rows");
  await page.getByText("connected").waitFor();
  await page.keyboard.type('echo $((6 * 7))"-answers"; printf "\\033[38;2;1;200;3mgreen\\033[0m\\n"\n');
  await screen.getByText("42-answers").waitFor();
  // It answers a program's question once, not again when the output is shown again.
  await page.keyboard.type(`printf '\\033[6n'; read -rsdR; echo pla''ced\n`);
  await screen.getByText("placed", { exact: true }).waitFor();
  const sockets: WebSocketRoute[] = [];
  await page.routeWebSocket(/terminal/, (socket) => {
    socket.connectToServer();
    sockets.push(socket);
  });
  await page.reload();
  await screen.getByText("42-answers").waitFor();
  // What is typed while the connection is lost arrives.
  await page.getByText("connected").waitFor();
  await sockets.at(-1)?.close();
  await page.getByText("lost", { exact: true }).waitFor();
  await page.keyboard.type("echo ty''ped\n");
  await screen.getByText("typed", { exact: true }).waitFor();
  // A program in it asks for the clipboard, the title and a link, and gets none.
  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  await page.keyboard.type(
    `printf '\\033]52;c;cHduZWQ=\\007\\033]0;pwned\\007\\033]8;;javascript:1\\007link\\033]8;;\\007\\n'\n`,
  );
  await screen.getByText("link", { exact: true }).waitFor();
  expect(await page.evaluate(() => [document.title, document.querySelectorAll(".shell a").length])).toEqual([
    "desk · Sandkeep",
    0,
  ]);
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("mine");
  await page.keyboard.type("getent hosts refused.example.com; echo ag''ain\n");
  await screen.getByText("again", { exact: true }).waitFor();
  await page.keyboard.press("Control+Shift+Backslash");

  // The refusal, and a policy that allows it, as a difference.
  await page.keyboard.press("6");
  await page.getByText("the policy is deny-all").first().waitFor();
  await use(page, page.getByRole("button", { name: "Allow…" }).first());
  await page.getByText("+ refused.example.com").waitFor();
  await page.getByText("- deny-all").waitFor();
  await use(page, page.getByRole("button", { name: "Apply to desk" }));
  await page.getByText("custom · 1 name").waitFor();

  // A command from the palette, whose hostile output stays text.
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").waitFor();
  await page.keyboard.insertText(`>printf '%s' ${JSON.stringify(hostile)}; echo wrong >&2; exit 3`);
  await page.keyboard.press("Enter");
  await page.getByLabel("Output").getByText("wrong").waitFor();
  await page.getByText("3 exit code").waitFor();
  await expectHarmless(page);

  // A snapshot, a copy, what has changed in it, back to the first one, and the end of the copy.
  await page.keyboard.press("p");
  await page.getByText("Snapshot of desk made").waitFor();
  await page.keyboard.press("f");
  await page.getByRole("heading", { name: / desk$/ }).waitFor({ state: "detached" });
  const copy = decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1) ?? "");
  await page.getByRole("heading", { name: copy }).waitFor();
  await page.keyboard.press("p");
  await page.getByText(`Snapshot of ${copy} made`).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").waitFor();
  await page.keyboard.insertText(">echo new >/tmp/of-the-copy");
  await page.keyboard.press("Enter");
  await page.getByText("0 exit code").waitFor();
  // Arrows move between the tabs once one of them has the focus.
  await reach(page, page.getByRole("tab", { name: "Commands" }));
  await reach(page, page.getByRole("tab", { name: "Snapshots" }), "ArrowRight");
  await use(page, page.getByRole("button", { name: "Diff" }).first());
  const difference = page.getByRole("region", { name: "Difference" });
  await difference.getByText("/tmp/of-the-copy").waitFor();
  await use(page, difference.getByRole("button", { name: "Close" }));
  await difference.waitFor({ state: "detached" });
  await page.keyboard.press("]");
  await page.getByRole("heading", { name: / desk$/ }).waitFor();
  await page.keyboard.press("[");
  await page.getByRole("heading", { name: copy }).waitFor();
  const { session } = await client.call("getSandbox", { params: { sandbox: copy } });
  await page.keyboard.press(".");
  await use(page, page.getByRole("dialog").getByRole("button", { name: "Delete…" }));
  const question = page.getByRole("dialog", { name: `Delete ${copy}` });
  await use(page, question.getByRole("button", { name: "Delete", exact: true }));

  // The list: rows by key, with one left.
  await page.getByText("1 of 1").waitFor();
  const row = page.getByRole("row").filter({ hasText: "desk" });
  await row.getByText("exit 3").waitFor();
  await row.locator(".spark").waitFor({ state: "attached" });
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("1 selected").waitFor({ state: "detached" });
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "desk" }).waitFor();

  // What this person did is in the audit, and the daemon has examined its host.
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await page.getByRole("row").filter({ hasText: "sandbox.delete" }).filter({ hasText: copy }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("h");
  await page.getByText("Sandboxes can run here").waitFor();
  // A request that was on its way when its sandbox was deleted is refused, and browsers say so.
  const isOfCopy = (each: string) => [session.id, copy].some((name) => each.includes(name));
  expect(complaints.filter((each) => !isOfCopy(each))).toEqual([]);
  await page.context().close();
});

test("files, ports, snapshots, egress, usage and events of a sandbox are shown and changed", async () => {
  const params = { sandbox: "desk" };
  const name = `<img src=x onerror=globalThis.pwned=1>.txt`;
  const query = { path: `/tmp/page/${name}` };
  await client.call("writeFile", { params, query, bytes: `<script>globalThis.pwned=1</script>\n` });
  const svg = { path: "/tmp/page/drawn.svg" };
  await client.call("writeFile", { params, query: svg, bytes: `<svg onload="globalThis.pwned=1"></svg>` });
  const { page, complaints } = await signedIn(browser, daemon());
  const at = (tab: string, more = "") => page.goto(`${daemon().url}/ui/sandboxes/desk?tab=${tab}${more}`);
  await at("files", "&folder=/tmp/page");
  await page.getByRole("button", { name: "drawn.svg" }).click();
  await page.getByLabel("Content").getByText("<svg").waitFor();
  await page.getByRole("button", { name: "onerror" }).click();
  await page.getByLabel("Content").getByText("<script>").waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Content of" }).fill("changed\n");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByLabel("Content").getByText("changed").waitFor();
  expect(await (await client.send("readFile", { params, query })).text()).toBe("changed\n");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download" }).click(),
  ]);
  expect(await readFile(await download.path(), "utf8")).toBe("changed\n");
  await page
    .locator('input[type="file"]')
    .setInputFiles({ name: "sent.txt", mimeType: "text/html", buffer: Buffer.from("sent") });
  await page.getByRole("button", { name: "sent.txt" }).waitFor();
  await page.getByLabel("New folder").fill("made");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "made" }).click();
  await page.getByText("This folder is empty").waitFor();

  await at("ports");
  await page.getByLabel("Port", { exact: true }).fill("3000");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: /^http/ }).waitFor();

  await at("snapshots");
  await page.getByRole("row").filter({ hasText: "manual" }).first().waitFor();
  const [, first] = await page.getByRole("button", { name: "Diff" }).all();
  await (first ?? page.getByRole("button", { name: "Diff" }).first()).click();
  await page.getByRole("region", { name: "Difference" }).getByText("/tmp/page/drawn.svg").waitFor();
  await at("events");
  await page.getByRole("row").filter({ hasText: "session.running" }).waitFor();
  await at("use");
  await page.getByRole("region", { name: "curl" }).getByText("/sandboxes/desk/commands").waitFor();

  // Dragging over the end of the tape leaves out what came earlier, in every tab.
  const body = { command: "sh", args: ["-c", "echo early"] };
  const { id } = await client.call("startCommand", { params, body });
  await client.call("waitForCommand", { params: { ...params, command: id } });
  await at("commands");
  const tape = page.getByRole("img", { name: /^Time line: / });
  await page.getByRole("button", { name: "echo early" }).waitFor();
  const { x, y, width } = (await tape.boundingBox()) ?? { x: 0, y: 0, width: 0 };
  await page.mouse.move(x + 1, y + 4);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.01 + 1, y + 4, { steps: 3 });
  await page.mouse.up();
  await page.getByRole("button", { name: "echo early" }).waitFor({ state: "detached" });
  expect(new URL(page.url()).searchParams.has("from")).toBe(true);
  await page.keyboard.press("6");
  await page.getByText("0 allowed").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByText("Time line as a table").click();
  await page.getByRole("cell", { name: "echo early" }).waitFor();
  await page.getByRole("cell", { name: /^at most [\d.]+ of 2 processors$/ }).waitFor();
  await page.locator('.tape path.cpu[d^="M"]').first().waitFor({ state: "attached" });

  // No policy opens such an address, so that nothing offers to.
  const program = `require("net").connect(80, "169.254.169.254").on("error", () => process.exit())`;
  await client.call("startCommand", { params, body: { command: "node", args: ["-e", program] } });
  await at("egress");
  const lines = page.getByLabel("Connections").getByRole("listitem");
  await lines.filter({ hasText: "is link-local" }).first().waitFor();
  expect(await lines.filter({ hasText: "is link-local" }).getByRole("button").count()).toBe(0);

  // The refusal is also among those of the whole project, and leads back to its sandbox.
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await page.getByLabel("Filter connections").fill("169.254");
  await lines.filter({ hasText: "is link-local" }).getByRole("link", { name: "desk" }).first().click();
  await page.getByRole("tab", { name: /^Egress/, selected: true }).waitFor();
  await page.goto(`${daemon().url}/ui/sandboxes?q=is:refused`);
  await page
    .getByRole("row")
    .filter({ hasText: "desk" })
    .getByRole("link", { name: /refused connections$/ })
    .waitFor();

  // After a stop and a resume, the session before is still there, under its name.
  await page.goto(`${daemon().url}/ui/keys`);
  await client.call("stopSession", { params });
  await client.call("resumeSandbox", { params });
  await at("egress");
  await lines.filter({ hasText: "is link-local" }).first().waitFor();
  await lines.filter({ hasText: /^session / }).waitFor();
  await at("commands");
  await page.getByRole("button", { name: "echo early" }).click();
  await page.getByLabel("Output").getByText("early").waitFor();
  await page.getByRole("img", { name: /^Time line: 2 sessions, / }).waitFor();

  await at("usage");
  await page.getByRole("img", { name: /^Memory: at most [\d.]+ \w+ of 4.3 GB$/ }).waitFor();
  await page.getByRole("img", { name: /^Processors: at most [\d.]+ of 2$/ }).press("ArrowLeft");
  await page.locator(".chart .cross").waitFor({ state: "attached" });
  await expectHarmless(page);
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("the pictures of the README are taken from these pages, and are small", async () => {
  for (const bytes of await takePictures(browser, daemon(), client)) expect(bytes).toBeLessThan(150_000);
});

test("a phone shows what happened and to what, every button, and the tab that is open", async () => {
  await expectReadableOnPhone(browser, daemon(), client);
});

test("eight tabs share one stream, and keep their rows, session and shell while the daemon restarts", async () => {
  await expectSharedStream(browser, daemon(), client);
});

/** runs in a page: what it has loaded, and the bytes, as they were sent, of what it needs before somebody opens a dialog */
function loaded(): { names: string[]; scripts: number; styles: number } {
  const files = (performance.getEntriesByType("resource") as PerformanceResourceTiming[]).filter(({ name }) =>
    new URL(name).pathname.startsWith("/ui/v/"),
  );
  // The palette has the search of the list.
  const ofDialogs = /\/(dialog|new-sandbox|palette|selection|query|activity|processor-samples)\.js$/;
  const sum = (pattern: RegExp) =>
    files
      .filter(({ name }) => pattern.test(name) && !ofDialogs.test(name))
      .reduce((total, { encodedBodySize }) => total + encodedBodySize, 0);
  const names = files.map(({ name }) => /([^/]+)\.\w+$/.exec(name)?.[1] ?? "");
  return { names, scripts: sum(/\.[jt]s$/), styles: sum(/\.css$/) };
}
