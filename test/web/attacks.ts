/** Pages that attack the dashboard: one that a sandbox serves on its port, and one on another port of the same address. */

import { createServer } from "node:http";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { SandkeepClient } from "../../src/client/client.ts";
import type { TestDaemon } from "../harness/daemon.ts";

/** a server that a sandbox runs */
const served = `require("http").createServer((_, r) => r.setHeader("content-type", "text/html").end("<p>attack</p>")).listen(3000)`;

/** tries the attacks from both pages, in the tab of somebody who is signed in; "desk" is a sandbox */
export async function expectAttacksFail(page: Page, daemon: TestDaemon, client: SandkeepClient): Promise<void> {
  const before = await client.call("listSandboxes", {});
  // On a slow host its time is over by now.
  const { state } = await client.call("getSandbox", { params: { sandbox: "desk" } });
  if (state !== "running") await client.call("resumeSandbox", { params: { sandbox: "desk" } });
  const { url } = await client.call("openPort", { params: { sandbox: "desk", port: "3000" } });
  const body = { command: "node", args: ["-e", served] };
  await client.call("startCommand", { params: { sandbox: "desk" }, body });
  const server = createServer((_, response) => response.setHeader("content-type", "text/html").end("<p>attack</p>"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const neighbour = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`;
  try {
    for (const place of [neighbour, url ?? ""]) {
      await expect
        .poll(async () => {
          await page.goto(place);
          return page.getByText("attack").count();
        })
        .toBe(1);
      const nothing = { read: "blocked", posted: "sent", framed: "blocked", socket: "refused", opened: "blocked" };
      expect({ place, ...(await page.evaluate(attack, daemon.url)) }).toEqual({ place, ...nothing });
    }
  } finally {
    server.close();
  }
  // What was posted has changed nothing, and the session is as it was.
  expect((await client.call("listSandboxes", {})).sandboxes.length).toBe(before.sandboxes.length);
  await page.goto(`${daemon.url}/ui/sandboxes`);
  await page.getByRole("row").filter({ hasText: "desk" }).waitFor();
}

/** runs in the attacking page; `target` is the daemon's address */
async function attack(target: string): Promise<Record<string, string>> {
  const read = await fetch(`${target}/sandkeep/v1/sandboxes`, { credentials: "include" }).then(
    ({ status }) => String(status),
    () => "blocked",
  );
  // A browser sends this without asking the target first, and shows the page nothing of the answer.
  const posted = await fetch(`${target}/sandkeep/v1/sandboxes`, {
    method: "POST",
    mode: "no-cors",
    credentials: "include",
    headers: { "content-type": "text/plain" },
    body: JSON.stringify({ name: "pwned" }),
  }).then(
    () => "sent",
    () => "blocked",
  );
  const form = document.createElement("form");
  Object.assign(form, {
    method: "post",
    action: `${target}/sandkeep/v1/sandboxes`,
    enctype: "text/plain",
    target: "x",
  });
  const field = Object.assign(document.createElement("input"), { name: '{"name":"pwned","x":"', value: '"}' });
  const hidden = Object.assign(document.createElement("iframe"), { name: "x" });
  form.append(field);
  document.body.append(hidden, form);
  form.submit();
  // Cookies reach every port of an address, so another port may set them, too.
  const { port } = new URL(target);
  for (const rest of ["/", "/sandkeep", "/; domain=localhost", "/sandkeep; domain=localhost"]) {
    // biome-ignore lint/suspicious/noDocumentCookie: every page has this way, also where there is no other
    document.cookie = `sandkeep_${port}=forged; path=${rest}`;
  }
  const frame = document.createElement("iframe");
  frame.src = `${target}/ui/`;
  document.body.append(frame);
  await new Promise((resolve) => frame.addEventListener("load", resolve));
  let framed = "blocked";
  try {
    framed = frame.contentDocument?.title ?? "blocked";
  } catch {}
  const path = "/sandkeep/v1/sandboxes/desk/commands/cmd_00000000000000000000000000000000/terminal";
  const socket = new WebSocket(`${target.replace("http", "ws")}${path}`, ["sandkeep"]);
  const answer = await new Promise<string>((resolve) => {
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  });
  const other = open(`${target}/ui/`);
  await new Promise((resolve) => setTimeout(resolve, 500));
  let opened = "blocked";
  try {
    if (other && !other.closed) opened = other.document.title;
  } catch {}
  other?.close();
  return { read, posted, framed, socket: answer, opened };
}
