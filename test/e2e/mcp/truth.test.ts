/**
 * What the tools' parameters say to a model is true: the sentences about networks, repositories, images and sizes are
 * quoted here, next to what happens. Those of the tools themselves are in descriptions.test.ts.
 */

import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { root, tempDir } from "../../harness/harness.ts";
import { ended, linesOf, openInternet } from "../../internet/internet.ts";
import { startDaemonOn } from "../../internet/internet-daemon.ts";
import { otherAddress, webAddress } from "../../internet/internet-names.ts";
import { has, needs } from "../../runner/needs.ts";
import { type Answer, call, connect, refusal } from "./mcp.ts";

const undo = new AsyncDisposableStack();
let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  if (!has("root") || !has("the command git")) return;
  const internet = await openInternet(undo);
  const files = await tempDir(undo);
  publish(files);
  const script = join(root, "test/e2e/vercel/source-servers.ts");
  const servers = spawn(...internet.world.command(process.execPath, script, files), {
    stdio: ["pipe", "pipe", "inherit"],
  });
  undo.defer(() => ended(servers));
  await linesOf(servers)();
  daemon = await startDaemonOn(internet, undo);
  client = await connect(daemon, "2026-07-28", undo);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command git", "the command curl"));

/** requests that a sandbox tries, and whether an answer comes from outside */
const tries = {
  https: "curl -sk --max-time 10 https://web.test/",
  http: "curl -sf --max-time 10 http://web.test/",
  "https of another host": "curl -sk --max-time 10 https://other.test/",
  "https below another host": "curl -sk --max-time 10 https://www.other.test/",
  "http of another address": `curl -sf --max-time 10 http://${otherAddress}/`,
  "the name": "getent hosts web.test",
};

describe("network_policy", () => {
  test("`allow-all: every public address`", async () => {
    expect(await told("create_sandbox", "mode")).toMatch(/^allow-all: every public address\./);
    const all = Object.fromEntries(Object.keys(tries).map((name) => [name, true]));
    expect(await reached({ mode: "allow-all" })).toEqual(all);
    expect(await told("create_sandbox")).toMatch(/Default: allow-all\.$/);
    expect(await reached(undefined)).toEqual(all);
  });

  test("`deny-all: nothing, no DNS`", async () => {
    expect(await told("create_sandbox", "mode")).toMatch(/deny-all: nothing, no DNS\./);
    const nothing = Object.fromEntries(Object.keys(tries).map((name) => [name, false]));
    expect(await reached({ mode: "deny-all" })).toEqual(nothing);
    expect(await reached({ mode: "custom" })).toEqual(nothing);
  });

  test("`Hosts reachable over TLS only: https works, http does not`", async () => {
    const words =
      /^Hosts reachable over TLS only: https works, http does not\. \*\.example\.com: every name below it\./;
    expect(await told("set_network_policy", "allowed_domains")).toMatch(words);
    const domains = { mode: "custom", allowed_domains: ["web.test", "*.other.test"] };
    expect(await reached(domains)).toEqual({
      https: true,
      http: false,
      "https of another host": false,
      "https below another host": true,
      "http of another address": false,
      "the name": true,
    });
  });

  test("`A bare *: every public host, http too`", async () => {
    expect(await told("set_network_policy", "allowed_domains")).toMatch(/ A bare \*: every public host, http too\.$/);
    const all = Object.fromEntries(Object.keys(tries).map((name) => [name, true]));
    expect(await reached({ mode: "custom", allowed_domains: ["*"] })).toEqual(all);
  });

  test("`Address ranges reachable by any protocol, http too`, except `Ranges that stay closed`", async () => {
    expect(await told("set_network_policy", "allowed_cidrs")).toMatch(
      /^Address ranges reachable by any protocol, http/,
    );
    expect(await told("set_network_policy", "denied_cidrs")).toMatch(
      /^Ranges that stay closed whatever the other lists/,
    );
    const ranges = { mode: "custom", allowed_cidrs: ["93.184.216.0/24"], denied_cidrs: [`${webAddress}/32`] };
    expect(await reached(ranges)).toMatchObject({ https: false, http: false, "http of another address": true });
    const both = { mode: "custom", allowed_domains: ["web.test"], denied_cidrs: [`${webAddress}/32`] };
    expect(await reached(both)).toMatchObject({ https: false, http: false });
  });
});

describe("create_sandbox", () => {
  test("`Git repository to clone into the working directory`, at `Branch, tag or commit`", async () => {
    const properties = await propertiesOf("create_sandbox");
    expect(properties.git_url?.description).toMatch(/^Git repository to clone into the working directory/);
    expect(properties.git_ref?.description).toBe("Branch, tag or commit of git_url. Default: its default branch.");
    const git_url = "http://web.test:8080/repo.git";
    const contents = { "": "second\n", "v1.0": "first\n", topic: "topic\n" };
    for (const [git_ref, content] of Object.entries(contents)) {
      const { sandbox, cwd } = await call(client, "create_sandbox", { git_url, ...(git_ref && { git_ref }) });
      expect(await call(client, "read_file", { sandbox, path: `${cwd}/file.txt` })).toMatchObject({ content });
      await call(client, "delete_sandbox", { sandbox });
    }
    expect(await refusal(client, "create_sandbox", { git_url, git_ref: "nowhere" })).toMatch(/^Cannot clone/);
  });

  test("`If no image has it, the default image runs, and note says so`", async () => {
    expect((await propertiesOf("create_sandbox")).runtime?.description).toMatch(
      /If no image has it, the default image runs, and note says so\.$/,
    );
    const own = await call(client, "create_sandbox", { runtime: "node24" });
    expect([own.image, own.note]).toEqual(["host", undefined]);
    const other = await call(client, "create_sandbox", { runtime: "python3.13" });
    expect(other).toMatchObject({ image: "host", note: expect.stringMatching(/^No image named "python3.13" is here/) });
    for (const { sandbox } of [own, other]) await call(client, "delete_sandbox", { sandbox });
  });

  test("`Processors, each with 2 GiB of memory`, `Whether its files survive a stop`, `sudo inside`", async () => {
    const made = await call(client, "create_sandbox", { vcpus: 1, persistent: false });
    expect(made).toMatchObject({ vcpus: 1, memory_mib: 2048, persistent: false });
    const { sandbox } = made;
    expect(await call(client, "run_command", { sandbox, command: "sudo id -u" })).toMatchObject({ stdout: "0\n" });
    await call(client, "stop_sandbox", { sandbox });
    expect(await refusal(client, "resume_sandbox", { sandbox })).toMatch(/no snapshot/);
    await call(client, "delete_sandbox", { sandbox });
  });
});

test("every tool names only tools that are there", async () => {
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  for (const { name, description = "", inputSchema } of tools) {
    const words = JSON.stringify([description, inputSchema]);
    const named = [
      ...words.matchAll(/\b[a-z]+(?:_[a-z]+)*_(?:sandbox(?:es)?|command|output|input|file|files|port|policy)\b/g),
    ];
    const foreign = named.map(([word]) => word).filter((word) => !names.includes(word) && word !== "network_policy");
    expect(foreign, name).toEqual([]);
  }
});

/** the description of a tool's network policy, or of a part of it, from its schema */
async function told(name: string, part?: string): Promise<string> {
  const policy = (await propertiesOf(name)).network_policy;
  return (part === undefined ? policy?.description : policy?.properties?.[part]?.description) ?? "";
}

interface Property {
  description?: string;
  properties?: Record<string, Property>;
}

async function propertiesOf(name: string): Promise<Record<string, Property>> {
  const tool = (await client.listTools()).tools.find((each) => each.name === name);
  return (tool?.inputSchema.properties ?? {}) as Record<string, Property>;
}

/** the requests that succeed from a new sandbox with this policy */
async function reached(network_policy: object | undefined): Promise<Record<string, boolean>> {
  const { sandbox } = await call(client, "create_sandbox", {
    persistent: false,
    ...(network_policy && { network_policy }),
  });
  const runs = Object.entries(tries).map(async ([name, command]): Promise<[string, boolean]> => {
    const { exit_code }: Answer = await call(client, "run_command", { sandbox, command });
    return [name, exit_code === 0];
  });
  const outcome = Object.fromEntries(await Promise.all(runs));
  await call(client, "delete_sandbox", { sandbox });
  return outcome;
}

/** a repository with two commits, the first with a tag, and a branch */
function publish(files: string): void {
  const script = `
    git init -q -b main work && cd work && git config user.name t && git config user.email t@t.test
    echo first > file.txt && git add . && git commit -qm one && git tag v1.0
    git checkout -qb topic && echo topic > file.txt && git commit -qam topic && git checkout -q main
    echo second > file.txt && git commit -qam two && cd .. && git clone -q --bare work repo.git`;
  execFileSync("sh", ["-ec", script], { cwd: files });
}
