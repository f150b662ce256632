/** The page of a sandbox in a real browser: its tape, and what its tabs say about a chosen time. */

import { execFile } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { get } from "node:http";
import { promisify } from "node:util";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { signedIn, startBrowser } from "./browser.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
let browser: Browser;
let client: SandkeepClient;

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
});
afterAll(() => undo.disposeAsync());

async function run(sandbox: string, script: string) {
  const params = { sandbox };
  const { id } = await client.call("startCommand", { params, body: { command: "sh", args: ["-c", script] } });
  return client.call("waitForCommand", { params: { ...params, command: id } });
}

/** opens a tab of a sandbox, with a part of the address */
async function at(page: Page, sandbox: string, tab: string, more = ""): Promise<void> {
  await page.goto(`${daemon().url}/ui/sandboxes/${sandbox}?tab=${tab}${more}`);
}

test("a chosen time filters every tab that has times, and the others say that they show now", async () => {
  const made = await client.call("createSandbox", { body: { name: "timed", networkPolicy: "deny-all" } });
  const params = { sandbox: "timed" };
  // Samples are two seconds apart, and the first one tells what was used before without saying when.
  const samples = () => client.call("listUsageSamples", { params }).then(({ samples }) => samples.length);
  await expect.poll(samples, { timeout: 60_000 }).toBeGreaterThan(0);
  const connect = `node -e 'require("net").connect(80, "198.51.100.7").on("error", () => {})'`;
  await run("timed", `echo early; ${connect}; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done`);
  await client.call("createSnapshot", { params, body: { name: "first" } });
  const before = await samples();
  await expect.poll(samples, { timeout: 60_000 }).toBeGreaterThan(before + 1);
  const middle = Date.now();
  await run("timed", "echo late");
  await client.call("createSnapshot", { params, body: { name: "second" } });
  const { page, complaints } = await signedIn(browser, daemon());
  const early = `&from=${made.createdAt - 1000}&to=${middle}`;
  const late = `&from=${middle}&to=${middle + 3_600_000}`;

  await at(page, "timed", "commands", late);
  await page.getByRole("button", { name: "echo late" }).waitFor();
  expect(await page.getByRole("button", { name: /^0.*echo early/ }).count()).toBe(0);

  await at(page, "timed", "snapshots", early);
  await page.getByRole("button", { name: "first" }).waitFor();
  expect(await page.getByRole("button", { name: "second" }).count()).toBe(0);
  await at(page, "timed", "snapshots", late);
  await page.getByRole("button", { name: "second" }).waitFor();
  expect(await page.getByRole("button", { name: "first" }).count()).toBe(0);

  await at(page, "timed", "egress", early);
  await page.getByLabel("Connections").getByText("198.51.100.7:80").first().waitFor();
  await at(page, "timed", "egress", late);
  await page.getByText("0 allowed").waitFor();
  await page.getByText("0 refused").waitFor();
  await page.getByRole("button", { name: "ports" }).click();
  await page.getByText("does not know when bytes came through a port").waitFor();
  await page.getByRole("button", { name: "policy" }).click();
  await page.getByText("This is the policy of now").waitFor();

  const sum = async (name: string) => page.locator(".sums div").filter({ hasText: name }).locator("dd").innerText();
  await at(page, "timed", "usage", early);
  await page.locator(".sums").waitFor();
  expect(await sum("processor time")).not.toBe("0 ms");
  expect(await sum("reserved memory")).toMatch(/^[\d.e-]+ GiB·h$/);
  // Before the sandbox there was nothing.
  await at(page, "timed", "usage", `&from=1000&to=${made.createdAt - 60_000}`);
  await page.locator(".sums").waitFor();
  expect([await sum("ran"), await sum("processor time"), await sum("net in")]).toEqual(["0 ms", "0 ms", "0 B"]);
  await page.getByRole("heading", { name: "Traffic of connections that began in this time" }).waitFor();

  await at(page, "timed", "events", `&from=1000&to=${made.createdAt - 60_000}`);
  await page.getByText("keeps no event of this sandbox in this time").waitFor();

  for (const tab of ["files", "ports", "use", "terminal"]) {
    await at(page, "timed", tab, early);
    await page.getByText("as it is now, not the chosen time").waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByText("as it is now, not the chosen time").waitFor({ state: "detached" });
  }
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params, query: { snapshots: true } });
});

test("with more commands than the page lists, the tape still has all, and a chosen time shows the old ones", async () => {
  const params = { sandbox: "crowd" };
  await client.call("createSandbox", { body: { name: "crowd", persistent: false, networkPolicy: "deny-all" } });
  await run("crowd", "echo oldest; exit 3");
  const middle = Date.now();
  for (let at = 0; at < 205; at += 5)
    await Promise.all(
      [1, 2, 3, 4, 5].map(() => client.call("startCommand", { params, body: { command: "true", args: [] } })),
    );
  const { page, complaints } = await signedIn(browser, daemon());
  await at(page, "crowd", "commands");
  await page.getByRole("img", { name: /^Time line: 1 session, 0 snapshots, 206 commands, / }).waitFor();
  await page.getByText("Only the newest 200 commands of each session are listed").waitFor();
  expect(await page.getByRole("button", { name: /echo oldest/ }).count()).toBe(0);
  // Far fewer shapes than commands, and the failure stands out.
  const bars = page.locator(".tape rect[data-from]");
  expect(await bars.count()).toBeLessThan(100);
  await page.locator(".tape rect.denied[data-from]").waitFor({ state: "attached" });
  await page.getByText("Time line as a table").click();
  await page.getByRole("cell", { name: "commands ran, some failed" }).waitFor();

  await at(page, "crowd", "commands", `&from=1000&to=${middle}`);
  await page.getByRole("button", { name: /echo oldest/ }).click();
  await page.getByLabel("Output").getByText("oldest").waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params });
});

test("the policy is read and changed, with the difference before it is applied; a connection leads to its command", async () => {
  const networkPolicy = "*.example.test, 203.0.113.0/24";
  await client.call("createSandbox", { body: { name: "strict", networkPolicy } });
  const { id } = await run("strict", `node -e 'require("net").connect(80, "198.51.100.7").on("error", () => {})'`);
  const { page, complaints } = await signedIn(browser, daemon());
  await at(page, "strict", "egress");
  const line = page.getByLabel("Connections").getByRole("listitem").filter({ hasText: "198.51.100.7:80" }).first();
  await line.getByRole("link", { name: /^node -e/ }).click();
  expect(new URL(page.url()).searchParams.get("command")).toBe(id);
  await page.getByRole("tab", { name: /^Commands/, selected: true }).waitFor();

  await at(page, "strict", "egress");
  await page.getByRole("button", { name: "hosts" }).click();
  await page.getByText("No program has reached a host").waitFor();
  await page.getByRole("button", { name: "policy" }).click();
  const policy = page.getByRole("region", { name: "Network policy" });
  await policy.getByText("*.example.test").waitFor();
  await policy.getByRole("button", { name: "Edit…" }).click();
  const field = policy.getByRole("textbox");
  expect(await field.inputValue()).toBe("*.example.test\n203.0.113.0/24");
  const show = policy.getByRole("button", { name: "Show the change…" });
  expect(await show.isDisabled()).toBe(true);
  await field.fill("203.0.113.0/24\n!203.0.113.7/32\nnot a name");
  await show.click();
  await policy.getByText("- *.example.test").waitFor();
  await policy.getByText("+ !203.0.113.7/32").waitFor();
  await policy.getByRole("button", { name: "Apply to strict" }).click();
  await page.getByText("it must be allow-all, deny-all, or domains and ranges").waitFor();
  const present = async () =>
    (await client.call("getSandbox", { params: { sandbox: "strict" } })).session.networkPolicy;
  expect((await present()).domains).toEqual([{ domain: "*.example.test", rules: [] }]);
  await policy.getByRole("button", { name: "Back" }).click();
  await field.fill("203.0.113.0/24\n!203.0.113.7/32");
  await show.click();
  await policy.getByRole("button", { name: "Apply to strict" }).click();
  await policy.getByRole("button", { name: "Edit…" }).waitFor();
  await policy.getByText("!203.0.113.7/32").waitFor();
  expect(await present()).toEqual({
    mode: "custom",
    domains: [],
    allowedCidrs: ["203.0.113.0/24"],
    deniedCidrs: ["203.0.113.7/32"],
  });
  const { networkPolicy: later } = await client.call("getSandbox", { params: { sandbox: "strict" } });
  expect(later).toEqual(await present());
  // The daemon's refusal of the first attempt.
  expect(complaints.filter((text) => !text.includes("400"))).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params: { sandbox: "strict" }, query: { snapshots: true } });
});

test("a port has its connections and bytes, in its tab and among the connections", async () => {
  await client.call("createSandbox", { body: { name: "door", persistent: false, ports: [3000] } });
  const params = { sandbox: "door" };
  const server = `require("http").createServer((_, answer) => answer.end("x".repeat(5000))).listen(3000)`;
  await client.call("startCommand", { params, body: { command: "node", args: ["-e", server] } });
  const [{ url = null } = {}] = (await client.call("getSandbox", { params })).ports;
  await expect.poll(() => statusOf(url), { timeout: 30_000 }).toBe(200);
  const { page, complaints } = await signedIn(browser, daemon());
  await at(page, "door", "ports");
  const words = /[1-9]\d* connections? · \d.* in · (5\.\d|\d\d\.\d) kB out/;
  await page.getByRole("group", { name: "Port 3000" }).getByText(words).waitFor();
  await at(page, "door", "egress", "&view=ports");
  await page.getByRole("row").filter({ hasText: "3000" }).getByText("kB").first().waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params });
});

/** of the page at a port; it asks the daemon itself, since only browsers know names below localhost */
async function statusOf(url: string | null): Promise<number | undefined> {
  const { hostname } = new URL(url ?? "");
  const { port } = new URL(daemon().url);
  return new Promise((resolve, reject) => {
    get({ host: "127.0.0.1", port, headers: { host: `${hostname}:${port}`, connection: "close" } }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode));
    }).on("error", reject);
  });
}

test("an output has its size, its lines of errors, and on request every byte", async () => {
  await client.call("createSandbox", { body: { name: "noisy", persistent: false, networkPolicy: "deny-all" } });
  await run("noisy", String.raw`printf '\033[31mred\033[0m\r\n'; printf 'one\ntwo\n' >&2`);
  const { page, complaints } = await signedIn(browser, daemon());
  await at(page, "noisy", "commands");
  const output = page.getByLabel("Output");
  await output.getByText("red", { exact: true }).waitFor();
  await page.getByText("2 lines on stderr").waitFor();
  await page.getByText("22 B", { exact: true }).waitFor();
  await page.getByLabel("raw").check();
  await output.getByText(String.raw`\u{1b}[31mred\u{1b}[0m\r`).waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params: { sandbox: "noisy" } });
});

test("snapshots have their sandboxes as leaves, are kept for ever, and a phone has every action", async () => {
  await client.call("createSandbox", { body: { name: "tree", networkPolicy: "deny-all" } });
  const params = { sandbox: "tree" };
  const { id } = await client.call("createSnapshot", { params, body: { name: "root", expiration: 3_600_000 } });
  await client.call("createSandbox", {
    body: { name: "leaf", persistent: false, source: { kind: "snapshot", snapshotId: id } },
  });
  await run("tree", "echo longer > /tmp/grown");
  const { page, complaints } = await signedIn(browser, daemon());
  await at(page, "tree", "snapshots");
  const row = page.getByRole("row").filter({ has: page.getByRole("button", { name: "root", exact: true }) });
  await row.getByText(/^59m$/).waitFor();
  const leaf = page.getByRole("row").filter({ has: page.getByRole("link", { name: "leaf", exact: true }) });
  await leaf.getByRole("img", { name: "running" }).waitFor();
  await row.getByRole("button", { name: "Diff" }).click();
  const grown = page.getByRole("listitem").filter({ hasText: "/tmp/grown" });
  await grown.getByText("+7 B", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Close" }).click();

  await row.getByRole("button", { name: "Keep…" }).click();
  const dialog = page.getByRole("dialog", { name: "Keep this snapshot" });
  await dialog.getByLabel("Name").fill("keeper");
  await dialog.getByRole("button", { name: "Keep" }).click();
  const kept = page.getByRole("row").filter({ has: page.getByRole("button", { name: "keeper", exact: true }) });
  await kept.getByText("never").waitFor();
  const taken = { snapshot: id };
  expect(await client.call("getSnapshot", { params: taken })).toMatchObject({ name: "keeper", expiration: 0 });

  await page.setViewportSize({ width: 390, height: 844 });
  await at(page, "tree", "snapshots");
  await kept.getByRole("button", { name: "Actions of keeper" }).click();
  const menu = page.getByRole("dialog", { name: "keeper" });
  for (const name of ["Diff", "New sandbox", "Keep…"]) await menu.getByRole("button", { name, exact: true }).waitFor();
  await menu.getByText(`sandkeep snapshot keep ${id}`).waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  await menu.getByRole("button", { name: "Delete…", exact: true }).click();
  await page.getByRole("dialog", { name: "Delete snapshot" }).getByRole("button", { name: "Delete" }).click();
  await kept.waitFor({ state: "detached" });
  expect((await client.call("getSnapshot", { params: taken })).state).toBe("deleted");
  expect(complaints).toEqual([]);
  await page.context().close();
  for (const sandbox of ["tree", "leaf"])
    await client.call("deleteSandbox", { params: { sandbox }, query: { snapshots: true } });
});

test("files are found by their path, moved, marked as changed, and saved without passing through the page", async () => {
  await client.call("createSandbox", { body: { name: "shelf", networkPolicy: "deny-all" } });
  const params = { sandbox: "shelf" };
  await run("shelf", "mkdir -p /tmp/box/deep; echo old > /tmp/box/old; echo gone > /tmp/box/gone");
  const { id } = await client.call("createSnapshot", { params, body: { name: "before" } });
  await run("shelf", "echo new > /tmp/box/deep/new; rm /tmp/box/gone; echo older > /tmp/box/old");
  // More than the page may hold while it saves it: the bytes must go to the disk as they come.
  await run("shelf", "truncate -s 300M /tmp/box/large");
  const { page, complaints } = await signedIn(browser, daemon());
  await at(page, "shelf", "files");
  await page.getByLabel("Go to path").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("/tmp/box/old\n");
  await page.getByLabel("Content").getByText("older").waitFor();
  const row = (name: string) =>
    page.getByLabel("Files", { exact: true }).getByRole("listitem").filter({ hasText: name });
  await page.getByLabel("Changed since").selectOption(id);
  await row("old").getByText("changed").waitFor();
  await row("deep").getByText("changed").waitFor();
  await row("large").getByText("added").waitFor();
  await row("gone").getByText("removed").waitFor();

  await page.getByRole("button", { name: "Move…" }).click();
  const dialog = page.getByRole("dialog", { name: "Move or rename" });
  await dialog.getByRole("textbox").fill("/tmp/box/deep/renamed");
  await dialog.getByRole("button", { name: "Move" }).click();
  await row("renamed").waitFor();
  await page.getByLabel("Content").getByText("older").waitFor();
  expect(new URL(page.url()).searchParams.get("folder")).toBe("/tmp/box/deep");

  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download", exact: true }).click();
  const saved = await saving;
  expect(saved.suggestedFilename()).toBe("renamed");
  expect(await readFile(await saved.path(), "utf8")).toBe("older\n");
  // The address was valid once.
  expect((await page.request.get(saved.url())).status()).toBe(401);

  await page.getByRole("button", { name: "Up", exact: true }).click();
  await row("large").getByRole("button").click();
  const savingLarge = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download", exact: true }).click();
  const large = await savingLarge;
  expect((await stat(await large.path())).size).toBe(300 * 2 ** 20);
  await large.delete();
  const savingFolder = page.waitForEvent("download");
  await page.goto(`${daemon().url}/ui/sandboxes/shelf?tab=files&folder=/tmp/box/deep`);
  await page.getByRole("button", { name: "Get as .tar.gz" }).click();
  const archive = await savingFolder;
  expect(archive.suggestedFilename()).toBe("deep.tar.gz");
  const { stdout } = await promisify(execFile)("tar", ["-tzf", await archive.path()]);
  expect(stdout).toContain("renamed");
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params, query: { snapshots: true } });
});

test("a terminal copies with the keyboard, and a phone can type control characters", async () => {
  await client.call("createSandbox", { body: { name: "keys", persistent: false, networkPolicy: "deny-all" } });
  const { page, complaints } = await signedIn(browser, daemon(), {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  await at(page, "keys", "terminal");
  await page.getByText("connected").waitFor();
  await page.keyboard.type("clear; echo copied''word; cat\n");
  const screen = page.locator(".shell .xterm-rows");
  // The layer above the letters takes the click.
  await screen.getByText("copiedword", { exact: true }).dblclick({ force: true });
  await page.keyboard.press("Control+Shift+C");
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe("copiedword");

  await page.setViewportSize({ width: 390, height: 844 });
  const control = page.getByRole("button", { name: "ctrl", exact: true });
  await control.click();
  expect(await control.getAttribute("aria-pressed")).toBe("true");
  await page.keyboard.type("c");
  await screen.getByText("^C").waitFor();
  // Only for one key: these letters are letters again, for the shell that is back.
  expect(await control.getAttribute("aria-pressed")).toBe("false");
  await page.keyboard.type("echo a''gain\n");
  await screen.getByText("again", { exact: true }).waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params: { sandbox: "keys" } });
});
