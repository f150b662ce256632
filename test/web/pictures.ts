/**
 * The two pictures of the README: the list of sandboxes, and a sandbox with its terminal and its connections. Tests take
 * them each time; `DASHBOARD_PICTURES=1 npx vitest run test/web` also writes them to docs/.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import type { SandkeepClient } from "../../src/client/client.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { root } from "../harness/harness.ts";
import { signedIn } from "./browser.ts";

const minute = 60_000;

const shown: { name: string; tags: Record<string, string>; timeout: number; line: string }[] = [
  { name: "fuzz-json", tags: { repo: "core" }, timeout: 300 * minute, line: "echo 1,204,113 cases; exit 77" },
  { name: "notebook-ana", tags: { owner: "ana" }, timeout: 112 * minute, line: "echo ready" },
  { name: "data-prep", tags: { team: "ml" }, timeout: 180 * minute, line: "echo 40 files" },
  { name: "eval-shard-08", tags: { suite: "swe" }, timeout: 44 * minute, line: "echo 31 passed" },
  { name: "eval-shard-07", tags: { suite: "swe" }, timeout: 44 * minute, line: "echo 1 failed; exit 1" },
  { name: "pr-4182", tags: { repo: "web" }, timeout: 12 * minute, line: "echo built" },
];

/** bytes of the list's and the sandbox's picture; leaves no sandbox behind */
export async function takePictures(browser: Browser, daemon: TestDaemon, client: SandkeepClient): Promise<number[]> {
  const run = async (sandbox: string, line: string) => {
    const body = { command: "sh", args: ["-c", line] };
    const { id } = await client.call("startCommand", { params: { sandbox }, body });
    await client.call("waitForCommand", { params: { sandbox, command: id } });
  };
  for (const { name, tags, timeout, line } of shown) {
    await client.call("createSandbox", { body: { name, tags, timeout, networkPolicy: "deny-all", persistent: false } });
    await run(name, line);
  }
  await client.call("stopSession", { params: { sandbox: "fuzz-json" } });
  const tags = { agent: "scout", env: "staging" };
  await client.call("createSandbox", {
    body: { name: "crawler", tags, timeout: 40 * minute, networkPolicy: "web.test,packages.example.org" },
  });
  await run("crawler", "mkdir -p app/out; echo 'queue 1 seeds, depth 3'");
  await client.call("createSnapshot", { params: { sandbox: "crawler" }, body: { name: "deps" } });
  for (const host of ["telemetry.example.net", "tracker.example.org"]) await run("crawler", `getent hosts ${host}`);
  await run("crawler", "seq 1 400000 | sha256sum");

  const list = await signedIn(browser, daemon, { colorScheme: "light", viewport: { width: 1280, height: 420 } });
  await list.page.goto(`${daemon.url}/ui/sandboxes?q=-desk`);
  await list.page.getByText("exit 1").waitFor();
  const first = await list.page.screenshot();
  await list.page.context().close();

  const one = await signedIn(browser, daemon, { colorScheme: "dark", viewport: { width: 1280, height: 640 } });
  await one.page.goto(`${daemon.url}/ui/sandboxes/crawler?tab=terminal&beside=egress`);
  await one.page.getByText("connected").waitFor();
  await one.page.locator(".shell").click();
  await one.page.keyboard.type("ls -la; getent hosts telemetry.example.net || echo refused\n");
  await one.page.locator(".xterm-rows").getByText("refused", { exact: true }).waitFor();
  await one.page.getByRole("button", { name: "Allow…" }).first().click();
  await one.page.getByText(/^\+ t/).first().waitFor();
  const second = await one.page.screenshot();
  await one.page.context().close();

  for (const { name } of [...shown, { name: "crawler" }]) {
    await client.call("deleteSandbox", { params: { sandbox: name }, query: { snapshots: true } });
  }
  if (process.env.DASHBOARD_PICTURES) {
    await writeFile(join(root, "docs/dashboard-list.png"), first);
    await writeFile(join(root, "docs/dashboard-sandbox.png"), second);
  }
  return [first.length, second.length];
}
