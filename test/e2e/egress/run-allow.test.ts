/** `sandkeep run --allow`: what a program in the new sandbox can reach of the test's internet. */

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { openInternet } from "../../internet/internet.ts";
import { startDaemonOn } from "../../internet/internet-daemon.ts";
import { otherAddress, webAddress } from "../../internet/internet-names.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "../sandkeep/cli.ts";

const undo = new AsyncDisposableStack();
let daemon: TestDaemon;
const cli = new Cli(() => daemon);

beforeAll(async () => {
  const internet = await openInternet(undo);
  daemon = await startDaemonOn(internet, undo);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command curl"));

/** the program's exit code, and what it has printed */
async function curl(options: string[], ...args: string[]) {
  const { code, stdout } = await cli.run(["run", ...options, "--", "curl", "-sSk", "-m", "20", ...args]);
  return { code, stdout };
}

const unresolved = { code: 6, stdout: "" };

test("an allowed domain is reached, and no other name resolves", async () => {
  expect(await curl(["--allow", "web.test"], "https://web.test/")).toMatchObject({ code: 0 });
  expect(await curl(["--allow", "web.test"], "https://tcp-only.test/")).toEqual(unresolved);
  expect(await curl(["--allow", "*.test"], "https://web.test/")).toMatchObject({ code: 0 });
  expect(await curl(["--allow", "tcp-only.test", "--allow", "web.test"], "https://web.test/")).toMatchObject({
    code: 0,
  });
  expect(await curl([], "https://web.test/")).toMatchObject({ code: 0 });
});

test("the address of another host is refused, also under the name of an allowed one", async () => {
  const elsewhere = ["--resolve", `web.test:443:${otherAddress}`];
  expect(await curl(["--allow", "web.test"], ...elsewhere, "https://web.test/")).toMatchObject({ code: 35 });
  expect(await curl(["--allow", "web.test"], `http://${otherAddress}/`, "-w", "%{http_code}")).toMatchObject({
    stdout: expect.stringMatching(/egress_denied.*403$/s),
  });
});

test("an allowed range is reached by its addresses", async () => {
  const status = ["-o", "/dev/null", "-w", "%{http_code}"];
  expect((await curl(["--allow", `${webAddress}/32`], ...status, `http://${webAddress}/`)).stdout).toBe("200");
  expect((await curl(["--allow", `${webAddress}/32`], ...status, `http://${otherAddress}/`)).stdout).toBe("403");
});

test("the log of a kept sandbox has what was refused, and the policy that would be enough", async () => {
  const kept = ["--keep", "--name", "kept", "--allow", "web.test"];
  expect(await curl(kept, "https://tcp-only.test/")).toEqual(unresolved);
  const { stdout } = await cli.run(["egress", "kept"]);
  expect(stdout).toMatch(/ denied +tcp-only\.test +dns A/);
  const { networkPolicy } = await cli.json(["egress", "kept", "--suggest"]);
  expect(networkPolicy.allow).toContain("tcp-only.test");
  expect((await cli.run(["rm", "-f", "kept"])).code).toBe(0);
});
