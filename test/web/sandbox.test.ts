/** What people do on the page of one sandbox, in a real browser: with its ports, its time, its commands, its shell and files. */

import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { signedIn, startBrowser } from "./browser.ts";
import { use } from "./keyboard.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
const params = { sandbox: "desk" };
let browser: Browser;
let client: SandkeepClient;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
  await client.call("createSandbox", { body: { name: "desk", networkPolicy: "deny-all", timeout: 3_600_000 } });
  const permissions = ["clipboard-read", "clipboard-write"];
  ({ page, complaints } = await signedIn(browser, daemon(), { permissions }));
});
afterEach(() => expect(complaints.splice(0)).toEqual([]));
afterAll(() => undo.disposeAsync());

const open = (tab: string, more = "") => page.goto(`${daemon().url}/ui/sandboxes/desk?tab=${tab}${more}`);
const press = (name: string | RegExp) => page.getByRole("button", { name }).click();
const copied = () => page.evaluate(() => navigator.clipboard.readText());
const desk = () => client.call("getSandbox", { params });

test("a port is opened, its address copied, and closed again", async () => {
  const served = `require("http").createServer((_, response) => response.end("served")).listen(3000)`;
  await client.call("startCommand", { params, body: { command: "node", args: ["-e", served] } });
  await open("ports");
  await page.getByText("No port has an address").waitFor();
  await page.getByLabel("Port", { exact: true }).fill("3000");
  await press("Open");
  await page.getByRole("link", { name: /^http/ }).waitFor();
  await press("Copy");
  await page.getByText("Copied").waitFor();
  const url = await copied();
  // In the browser, which needs no name server for names below localhost.
  const other = await browser.newPage();
  const isServed = async () => {
    await other.goto(url);
    return other.getByText("served", { exact: true }).count();
  };
  await expect.poll(isServed).toBe(1);
  await page.getByRole("tabpanel").getByRole("button", { name: "Close" }).click();
  await page.getByRole("link", { name: /^http/ }).waitFor({ state: "detached" });
  expect(await isServed()).toBe(0);
  await other.close();
  expect((await desk()).ports.filter((each) => each.url !== null)).toEqual([]);
});

test("a session gets more time, is paused with its programs, and resumed", async () => {
  await open("commands");
  const before = (await desk()).session.expiresAt ?? 0;
  await press(/^Extend 15 min/);
  await expect.poll(async () => (await desk()).session.expiresAt).toBe(before + 15 * 60_000);
  await client.call("startCommand", { params, body: { command: "sleep", args: ["1000"] } });
  await press("All actions");
  await press("Pause, keep programs");
  await page.getByText("paused", { exact: true }).first().waitFor();
  expect((await desk()).state).toBe("paused");
  await press("Resume");
  await page.getByText("running", { exact: true }).first().waitFor();
  const { commands } = await client.call("listCommands", { params: { session: (await desk()).session.id }, query: {} });
  expect(commands.find(({ command }) => command === "sleep")?.endedAt).toBeNull();
});

test("a dialog that closes gives the focus back", async () => {
  await open("commands");
  const menu = page.getByRole("button", { name: "All actions" });
  await menu.waitFor();
  await use(page, menu);
  await page.keyboard.press("Escape");
  await menu.and(page.locator(":focus")).waitFor();
  await use(page, menu);
  await use(page, page.getByRole("dialog").getByRole("button", { name: "Delete…" }));
  await use(page, page.getByRole("dialog", { name: "Delete desk" }).getByRole("button", { name: "Cancel" }));
  await menu.and(page.locator(":focus")).waitFor();
});

test("a command is interrupted, and run again", async () => {
  await open("commands");
  const line = "trap 'echo caught; exit 3' INT; echo begun; while true; do sleep 0.1; done";
  await page.getByLabel("Command to run in a shell").fill(line);
  await page.keyboard.press("Enter");
  const output = page.getByLabel("Output");
  await output.getByText("begun").waitFor();
  await press("Interrupt");
  await output.getByText("caught").waitFor();
  await page.getByRole("button", { name: "Interrupt" }).waitFor({ state: "detached" });
  const listed = page.locator(".commands").getByRole("button", { name: "echo caught" });
  await listed.getByText("3 exit code").waitFor();
  await press("Run again");
  await expect.poll(() => listed.count()).toBe(2);
  await output.getByText("begun").waitFor();
  expect(await output.getByText("caught").count()).toBe(0);
  await press("Interrupt");
  await output.getByText("caught").waitFor();
});

test("text of several lines is pasted into the shell only after a question", async () => {
  await open("terminal");
  await page.getByText("connected").waitFor();
  const screen = page.locator(".shell .xterm-rows");
  const paste = async (text: string) => {
    await page.evaluate((each) => navigator.clipboard.writeText(each), text);
    await page.locator(".shell").click();
    await page.keyboard.press("Control+Shift+V");
  };
  await paste("echo on''e-line");
  await screen.getByText("echo on''e-line").first().waitFor();
  await page.keyboard.press("Enter");
  await screen.getByText("one-line", { exact: true }).waitFor();
  const question = page.getByRole("dialog", { name: "Paste several lines" });
  await paste("touch /tmp/first\ntouch /tmp/second\n");
  await question.getByText("touch /tmp/first\\u{a}touch /tmp/second").waitFor();
  await question.getByRole("button", { name: "Cancel" }).click();
  // What is typed later runs later.
  await page.locator(".shell").click();
  await page.keyboard.type("ls /tmp/first /tmp/second; echo lis''ted\n");
  await screen.getByText("listed", { exact: true }).waitFor();
  expect(await screen.getByText("cannot access '/tmp/second'").count()).toBe(1);
  await paste("touch /tmp/first\ntouch /tmp/second\n");
  await question.getByRole("button", { name: "Paste" }).click();
  await page.keyboard.press("Enter");
  const isThere = () =>
    client.send("statFile", { params, query: { path: "/tmp/second" } }).then(
      () => true,
      () => false,
    );
  await expect.poll(isThere).toBe(true);
});

test("files that are dropped on the list are uploaded to the folder", async () => {
  await client.call("makeDirectory", { params, body: { path: "/tmp/dropped" } });
  await open("files", "&folder=/tmp/dropped");
  const list = page.getByText("This folder is empty");
  await list.waitFor();
  const dataTransfer = await page.evaluateHandle(() => {
    const made = new DataTransfer();
    for (const name of ["one.txt", "two.txt"]) made.items.add(new File([`content of ${name}`], name));
    return made;
  });
  await list.dispatchEvent("dragover", { dataTransfer });
  await page.locator(".pane.over").waitFor();
  await list.dispatchEvent("drop", { dataTransfer });
  for (const name of ["one.txt", "two.txt"]) {
    await page.getByRole("button", { name }).waitFor();
    const answer = await client.send("readFile", { params, query: { path: `/tmp/dropped/${name}` } });
    expect(await answer.text()).toBe(`content of ${name}`);
  }
  expect(await page.locator(".pane.over").count()).toBe(0);
});

test("older sessions are read when somebody asks for them", async () => {
  await client.call("startCommand", { params, body: { command: "sh", args: ["-c", "echo oldest"] } });
  // Nothing on this page is read from a session that ends.
  await page.goto(`${daemon().url}/ui/keys`);
  for (let count = 0; count < 5; count++) {
    await client.call("stopSession", { params });
    await client.call("resumeSandbox", { params });
  }
  await open("commands");
  await page.getByRole("img", { name: /^Time line: 5 sessions, / }).waitFor();
  expect(await page.getByRole("button", { name: "echo oldest" }).count()).toBe(0);
  await press("Older sessions");
  await page.getByRole("img", { name: /^Time line: 6 sessions, / }).waitFor();
  await page.getByRole("button", { name: "echo oldest" }).waitFor();
  await page.getByRole("button", { name: "Older sessions" }).waitFor({ state: "detached" });
});
