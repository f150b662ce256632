/** `e2b auth login`: the command line, unmodified, gets a key from a page of the daemon, uses it, and gives it back. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { daemonOfFile, type TestDaemon } from "../../harness/daemon.ts";
import { eventually, tempDir } from "../../harness/harness.ts";
import { needs } from "../../runner/needs.ts";
import { compileCache, raw } from "../clients.ts";
import { Typist } from "../vercel/typist.ts";
import { program } from "./e2b.ts";

const daemon = daemonOfFile();

/** a home whose browser only writes down the address that it is to open */
async function homeWithBrowser(): Promise<string> {
  const home = await tempDir();
  await mkdir(join(home, "bin"));
  for (const name of ["xdg-open", "open"])
    await writeFile(
      join(home, "bin", name),
      '#!/bin/sh\necho "$1" > "$HOME/opening" && mv "$HOME/opening" "$HOME/opened"\n',
      { mode: 0o755 },
    );
  return home;
}

/** on a terminal, without a key */
function on({ url }: TestDaemon, home: string, ...args: string[]): Typist {
  const env = {
    ...{ PATH: `${join(home, "bin")}:/usr/bin:/bin`, HOME: home, NO_COLOR: "1", NO_UPDATE_NOTIFIER: "1" },
    ...{ E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_DOCS_BASE: `${url}/docs`, NODE_COMPILE_CACHE: compileCache },
  };
  return new Typist([process.execPath, program, ...args], { env, cwd: home });
}

async function keys(): Promise<{ id: string; name: string }[]> {
  return (await raw(daemon(), "GET", "/sandkeep/v1/keys")).json.keys;
}

test("a login makes a key, which commands use, and a logout deletes it", async (context) => {
  needs(context, "the command python3");
  const home = await homeWithBrowser();
  const login = on(daemon(), home, "auth", "login");
  const address = await addressOf(home);
  expect(await (await fetch(address)).text()).toContain(address.searchParams.get("next"));
  const refused = await agree(address, "sk_wrong_wrong_wrong");
  expect(refused.status).toBe(401);
  const agreed = await agree(address, daemon().key);
  expect(agreed.status).toBe(303);
  const back = await fetch(agreed.headers.get("location") ?? "", { redirect: "manual" });
  expect(await (await fetch(back.headers.get("location") ?? "")).text()).toContain("signed in as default@localhost");
  await login.until(/Logged in as default@localhost/);
  expect(await login.ended, login.output).toBe(0);
  expect((await keys()).map(({ name }) => name)).toContain("e2b auth login");

  for (const [args, shown] of [
    [["auth", "info"], /default@localhost/],
    [["sandbox", "create", "--detach"], /\bi[a-z0-9]{30,}/],
    [["sandbox", "list"], /base/],
    [["template", "list"], /No templates/],
    [["sandbox", "kill", "--all"], /Killed|killed/],
  ] as const) {
    const command = on(daemon(), home, ...args);
    expect([args, await command.ended, command.output]).toEqual([args, 0, expect.stringMatching(shown)]);
  }
  const configure = on(daemon(), home, "auth", "configure");
  await configure.until(/Select project/);
  configure.type("\r");
  expect(await configure.ended, configure.output).toBe(0);

  const logout = on(daemon(), home, "auth", "logout");
  expect(await logout.ended, logout.output).toBe(0);
  expect((await keys()).map(({ name }) => name)).not.toContain("e2b auth login");
  const after = on(daemon(), home, "sandbox", "list");
  expect(await after.ended, after.output).toBe(1);
});

test("a login that is refused fails, and makes no key", async (context) => {
  needs(context, "the command python3");
  const before = await keys();
  const home = await homeWithBrowser();
  const login = on(daemon(), home, "auth", "login");
  const denied = await agree(await addressOf(home), "", "deny");
  const answer = await fetch(denied.headers.get("location") ?? "");
  expect(await answer.text()).toContain("not signed in: The login was refused");
  // It does not end by itself then, because it still listens.
  await login.until(/The login was refused on the page/);
  expect(await keys()).toEqual(before);
});

function addressOf(home: string): Promise<URL> {
  return eventually("an address to open", async () => new URL((await readFile(join(home, "opened"), "utf8")).trim()));
}

function agree(address: URL, key: string, answer = "approve"): Promise<Response> {
  const body = new URLSearchParams({ next: address.searchParams.get("next") ?? "", key, answer });
  const page = new URL(address.pathname, address);
  return fetch(page, { method: "POST", body, headers: { origin: page.origin }, redirect: "manual" });
}
