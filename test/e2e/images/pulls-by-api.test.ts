/**
 * Images that a caller pulls through the daemon, from two real registries of which the operator lists one: what keys of a
 * team and admin keys may pull, whose image it becomes, and how `sandkeep image` shows it.
 */

import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { imageMaker, putBusybox } from "../../harness/images/made-images.ts";
import { type RegistryOfTest, startRegistry } from "../../harness/images/registry.ts";
import { demand } from "../../runner/needs.ts";
import { Cli } from "../sandkeep/cli.ts";
import { DocumentClient, linesOf, type Sent } from "../sandkeep/document.ts";

const undo = new AsyncDisposableStack();
let listed: RegistryOfTest;
let other: RegistryOfTest;
/** a registry that never answers */
let silent = "";
let asked = 0;
let daemon: TestDaemon;
let api: DocumentClient;
/** of a team that is not the operator's */
let key = "";

beforeAll(async () => {
  demand("root", "the guest binary", "the command docker-registry", "the command skopeo", "the command umoci");
  listed = await startRegistry(undo, { isOpen: true });
  other = await startRegistry(undo, { isOpen: true });
  const { at, layer } = await imageMaker(listed.folder);
  await layer("tiny", "empty", async (root) => {
    await putBusybox(root);
    await mkdir(join(root, "data"));
  });
  await layer("large", "tiny", (root) => writeFile(join(root, "data/random"), randomBytes(6 << 20)));
  for (const registry of [listed, other]) {
    await registry.push(`oci:${at("tiny")}`, "team/tiny:1");
    await registry.push(`oci:${at("large")}`, "team/large:1");
  }
  const server = createServer((request) => {
    asked++;
    request.socket.once("close", () => asked--);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.defer(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  });
  silent = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  daemon = await startDaemon(undo, {
    SANDKEEP_REGISTRIES: listed.host,
    SANDKEEP_REGISTRY_HTTP: `${listed.host},${other.host},${silent}`,
    SANDKEEP_POOL_HOT: "0",
  });
  api = await DocumentClient.of(daemon);
  await api.call("createTeam", { body: { slug: "ml" } });
  key = (await api.call("createKey", { query: { team: "ml" }, body: { name: "theirs" } })).json.secret;
});
afterAll(() => undo.disposeAsync());

const pull = async (body: object, more: Sent = {}) => {
  const lines = linesOf((await api.call("pullImage", { body, ...more })).text);
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of answers
  return { lines, last: lines.at(-1) as any };
};
const names = async (more: Sent = {}) =>
  (await api.call("listImages", more)).json.images.map(({ name }: { name: string }) => name);

test("a key of a team pulls from a listed registry, as a create would, with progress", async () => {
  const reference = `${listed.host}/team/tiny:1`;
  const { lines, last } = await pull({ reference }, { key });
  expect(lines[0]).toEqual({ type: "asking", reference });
  const bytes = lines.filter(({ type }) => type === "pulling");
  expect(bytes.at(-1)).toMatchObject({ received: bytes[0]?.total, total: expect.any(Number) });
  const image = { name: reference, own: false, source: { reference } };
  expect(last).toMatchObject({ type: "pulled", isNew: true, image });
  expect((await pull({ reference }, { key })).last).toMatchObject({ type: "pulled", isNew: false, image });
  expect(await names()).toContain(reference);
  const { events } = (await api.call("readEvents", { key, query: { topics: "image" } })).json;
  expect(events.map(({ type }: { type: string }) => type)).toEqual(
    expect.arrayContaining(["image.pulling", "image.pulled"]),
  );
});

test("under another name, or without Node, the image is the team's own", async () => {
  const reference = `${listed.host}/team/tiny:1`;
  const { last } = await pull({ reference, name: "mine" }, { key });
  expect(last).toMatchObject({ isNew: true, image: { name: "mine", own: true } });
  expect(await names({ key })).toContain("mine");
  expect(await names()).not.toContain("mine");
  const run = { sandbox: { image: "mine" }, program: { command: "echo", args: ["from mine"] } };
  expect((await api.call("runProgram", { key, body: run })).text).toContain("from mine");
  const without = await pull({ reference, noNode: true }, { key });
  expect(without.last.image).toMatchObject({ name: reference, own: true });
  expect((await api.call("deleteImage", { key, query: { name: reference } })).status).toBe(204);
});

test("a key of a team pulls from no other registry, and changes no image of the host", async () => {
  const refused = async (body: object, more: Sent = { key }) => {
    const { status, json } = await api.send("pullImage", { body, ...more });
    return [status, json.error.message];
  };
  const elsewhere = `${other.host}/team/tiny:1`;
  const unlisted = `the operator does not list "${other.host}/team/tiny" in SANDKEEP_REGISTRIES`;
  for (const body of [{ reference: elsewhere }, { reference: elsewhere, name: "theirs", owner: "team" }]) {
    expect(await refused(body)).toEqual([403, `Cannot pull "${elsewhere}": ${unlisted}`]);
  }
  const here = `${listed.host}/team/tiny:1`;
  const admin = expect.stringContaining("needs an admin key");
  expect(await refused({ reference: here, name: "host-s", owner: "host" })).toEqual([403, admin]);
  expect(await refused({ reference: here, noNode: true, owner: "host" })).toEqual([403, admin]);
  const reader = (await api.call("createKey", { body: { name: "reader", readOnly: true } })).json.secret;
  expect(await refused({ reference: here }, { key: reader })).toEqual([403, expect.stringContaining("only read")]);
  expect(await refused({ reference: here, name: "host" })).toEqual([400, expect.stringContaining("own /usr")]);
  expect(await names()).not.toContain("host-s");
});

test("what a registry does not have is an error in the answer", async () => {
  const { last } = await pull({ reference: `${listed.host}/team/gone:1` }, { key });
  expect(last.error.message).toMatch(/Cannot pull .*does not have it/);
  const wrong = await api.send("pullImage", { key, body: { reference: "UPPER CASE" } });
  expect([wrong.status, wrong.json.error.message]).toEqual([400, expect.stringContaining("a repository has")]);
});

test("an admin key pulls from any registry, for the host or for a team", async () => {
  const reference = `${other.host}/team/tiny:1`;
  const ours = await pull({ reference, name: "ours", noNode: true });
  expect(ours.last).toMatchObject({ isNew: true, image: { name: "ours", own: false } });
  const theirs = await pull({ reference, name: "given", owner: "team" }, { query: { team: "ml" } });
  expect(theirs.last.image).toMatchObject({ name: "given", own: true });
  expect(await names({ key })).toEqual(expect.arrayContaining(["ours", "given"]));
  expect(await names()).not.toContain("given");
});

test("a pull ends when its client leaves", async () => {
  const reference = `${silent}/team/tiny:1`;
  const answer = await api.request(api.operation("pullImage"), { body: { reference } });
  const reader = answer.body?.getReader();
  expect(Buffer.from((await reader?.read())?.value ?? "").toString()).toContain('"asking"');
  await eventually("the registry is asked", async () => asked === 1);
  const leftAt = Date.now();
  await reader?.cancel();
  await eventually("nothing is asked of the registry", async () => asked === 0);
  const query = { action: "image.pull", target: reference };
  await eventually("the audit has it", async () => (await api.call("listAudit", { query })).json.entries.length === 1);
  const [{ outcome }] = (await api.call("listAudit", { query })).json.entries;
  expect(outcome).not.toBe("done");
  // A registry that sends nothing is given up after 30 seconds.
  expect(Date.now() - leftAt).toBeLessThan(20_000);
});

test("an image that is too large for the team's quota gets no name", async () => {
  const query = { team: "ml" };
  await api.call("setQuota", { query, body: { imageDisk: 4 } });
  const reference = `${listed.host}/team/large:1`;
  const { last } = await pull({ reference, name: "too-large" }, { key });
  expect(last.error).toMatchObject({ code: "limit", message: expect.stringContaining("may use 4 MiB") });
  expect(await names({ key })).not.toContain("too-large");
  await api.call("setQuota", { query, body: {} });
  expect((await pull({ reference, name: "too-large" }, { key })).last.type).toBe("pulled");
});

test("the audit has each pull, and who asked for it", async () => {
  const { entries } = (await api.call("listAudit", { query: { team: "ml", action: "image.pull" } })).json;
  const targets = entries.map(({ target }: { target: string }) => target);
  expect(targets).toContain(`${listed.host}/team/large:1`);
  expect(targets).toContain(`${other.host}/team/tiny:1`);
});

test("`sandkeep image` pulls, prunes and names images on the daemon that is named", async () => {
  const cli = new Cli(() => daemon, { SANDKEEP_DATA_DIR: "/nonexistent" });
  const reference = `${other.host}/team/large:1`;
  const first = await cli.run(["image", "pull", reference, "--name", "by-cli"]);
  expect(first).toMatchObject({ code: 0, stdout: expect.stringMatching(/^by-cli {2}2 layers {2}[\d.]+ MB/) });
  expect(first.stderr).toContain(`asking for ${reference}\n`);
  const again = await cli.run(["image", "pull", reference, "--name", "by-cli"]);
  expect(again.stdout).toMatch(/it was here already\)\n$/);
  expect(await cli.json(["image", "pull", reference, "--name", "by-cli"])).toMatchObject({
    ...{ name: "by-cli", isNew: false },
  });
  const gone = await cli.run(["image", "pull", `${other.host}/team/gone:1`]);
  expect(gone).toMatchObject({ code: 1, stderr: expect.stringMatching(/\nsandkeep: Cannot pull .*does not have it/) });

  expect((await cli.run(["image", "alias", "acme/*", "by-cli"])).stdout).toBe("acme/* is by-cli\n");
  expect((await cli.run(["image", "aliases"])).stdout).toBe("acme/* is by-cli\n");
  expect((await cli.run(["run", "acme/any", "echo", "by alias"])).stdout).toBe("by alias\n");
  expect((await cli.run(["image", "unalias", "acme/*"])).stdout).toBe("acme/* is no alias any more\n");
  expect((await cli.run(["image", "unalias", "acme/*"])).stderr).toMatch(/there is no such alias/);
  expect((await cli.run(["image", "prune"])).stdout).toMatch(/^deleted \d+ layers?\n$/);
  expect((await cli.run(["image", "prune", "--name", "x"])).stderr).toMatch(/options of pull/);
  const asTeam = new Cli(() => ({ ...daemon, key }), { SANDKEEP_DATA_DIR: "/nonexistent" });
  for (const words of [["prune"], ["alias", "x", "by-cli"], ["unalias", "x"]]) {
    expect((await asTeam.run(["image", ...words])).stderr).toMatch(/needs an admin key/);
  }
});

test("a terminal shows a bar while the image arrives, and nothing of it stays", async () => {
  const cli = new Cli(() => daemon, { SANDKEEP_DATA_DIR: "/nonexistent" });
  const { at, layer } = await imageMaker(join(other.folder, "more"));
  await layer("bar", "empty", (root) => writeFile(join(root, "random"), randomBytes(6 << 20)));
  await other.push(`oci:${at("bar")}`, "team/bar:1");
  const typist = cli.onTerminal(["image", "pull", `${other.host}/team/bar:1`]);
  expect(await typist.ended).toBe(0);
  expect(typist.output).toMatch(/\[#+ *\] \d+ % of [\d.]+ MB/);
});
