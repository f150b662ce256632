/** Pulls from registries that behave well, badly, and maliciously: servers of this test on loopback. */

import { mkdir, readdir, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { arch, sha256, stores, tarOf } from "../../../../test/harness/images/image-archives.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { serve, TestRegistry } from "../../../../test/harness/images/test-registry.ts";
import { processTag } from "../layers/claims.ts";
import { importRootfs } from "../oci/import.ts";
import type { RegistrySettings } from "./client.ts";
import type { Login } from "./credentials.ts";
import { pruneDownloads } from "./downloads.ts";
import { ask, readAll } from "./http.ts";
import { type PullOptions, pullImage } from "./pull.ts";
import { Puller } from "./puller.ts";
import { parseReference } from "./reference.ts";

const { store } = useLayerTools();

interface PullHow extends Partial<RegistrySettings> {
  login?: Record<string, Login>;
  options?: Partial<PullOptions>;
  name?: string;
}

function pull(
  at: TestStore,
  registry: TestRegistry,
  { login = {}, options = {}, name = ":v1", ...settings }: PullHow = {},
) {
  return pullImage(stores(at), parseReference(`${registry.host}/team/app${name}`), {
    settings: { http: [registry.host], private: [], mirrors: {}, patience, ...settings },
    credentials: { find: async (host) => login[host] },
    isTrusted: true,
    ...options,
  });
}

const patience = { idle: 60_000, window: 60_000, least: 1 };
const one = () =>
  tarOf([
    { name: "etc/passwd", content: "root:x:0:0::/root:/bin/sh\n" },
    { name: "bin/tool", content: "tool" },
  ]);
const two = () => tarOf([{ name: "bin/.wh.tool" }, { name: "srv/data", content: "x".repeat(600_000) }]);

async function nothingLeft(at: TestStore): Promise<void> {
  await at.layers.settled();
  for (const folder of ["layers", "building", "claims", "images"]) {
    expect(await readdir(join(at.path, folder)), folder).toEqual([]);
  }
}

test("an image is pulled by tag and by digest, gzip and zstd, from an index with this machine's among others", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  registry.image("gz", [await one(), await two()], { env: ["A=b"] });
  const zstd = registry.image("zst", [await one()], { packed: zstdCompressSync });
  const digest = sha256(registry.tags.get("zst") ?? "");
  const mine = { digest: `sha256:${digest}`, size: 1, platform: { os: "linux", architecture: arch } };
  const other = { ...mine, digest: `sha256:${"0".repeat(64)}`, platform: { os: "linux", architecture: "s390x" } };
  registry.tags.set("multi", Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: [other, mine] })));

  const received: number[] = [];
  const gz = await pull(at, registry, { name: ":gz", options: { received: (bytes, of) => received.push(bytes / of) } });
  expect(gz).toMatchObject({ isNew: true, image: { name: `${registry.host}/team/app:gz`, env: { A: "b" } } });
  expect(gz.image.source).toEqual({
    reference: `${registry.host}/team/app:gz`,
    manifest: sha256(registry.tags.get("gz") ?? ""),
  });
  expect(received.at(-1)).toBe(1);
  expect((await pull(at, registry, { name: ":gz" })).isNew).toBe(false);

  // The layer that both share is not requested again, whatever its compression.
  registry.asked.length = 0;
  const multi = await pull(at, registry, { name: ":multi" });
  expect(multi.image.source).toMatchObject({ manifest: digest, index: sha256(registry.tags.get("multi") ?? "") });
  expect(multi.image.kept).toEqual(gz.image.kept?.slice(0, 1));
  expect(registry.asked.map(({ path }) => path)).not.toContain(`/v2/team/app/blobs/${zstd.layers[0]?.digest}`);

  const byDigest = await pull(at, registry, { name: `@sha256:${digest}` });
  expect(byDigest.image).toMatchObject({ name: `${registry.host}/team/app:sha256-${digest}`, base: multi.image.base });
  expect(await readdir(join(at.path, "downloads"))).toEqual([]);
});

test("an interrupted download continues where it was, also in the next pull, or starts over", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  const manifest = registry.image("v1", [await one(), await two()], { packed: (tar) => tar });
  const large = manifest.layers[1]?.digest ?? "";
  let breaks = 1;
  let breakOff = () => {};
  // Not before some bytes have arrived, which are counted when they are written, 256 KiB at a time.
  const received = (bytes: number) => bytes > 50_000 && breakOff();
  const cut = (request: IncomingMessage, response: ServerResponse) => {
    if (!request.url?.endsWith(large) || breaks-- <= 0) return false;
    const content = registry.blobs.get(large) ?? Buffer.alloc(0);
    response.writeHead(200, { "content-length": content.length });
    response.write(content.subarray(0, 400_000));
    breakOff = () => response.destroy();
    return true;
  };
  registry.before = cut;
  await pull(at, registry, { options: { received } });
  expect(registry.asked.map(({ headers }) => headers.range).filter(Boolean)).toEqual([
    expect.stringMatching(/^bytes=\d+-$/),
  ]);

  // An aborted pull leaves a beginning for the next one.
  const other = await store({ volumes: true });
  breaks = 1;
  const stop = new AbortController();
  registry.before = (request, response) => {
    if (request.headers.range) stop.abort();
    return cut(request, response);
  };
  await expect(pull(other, registry, { options: { signal: stop.signal, received } })).rejects.toThrow("Cannot");
  expect(await readdir(join(other.path, "downloads"))).toEqual([
    `${large.slice(7)}-${sha256(registry.host).slice(0, 16)}.part`,
  ]);
  await nothingLeft(other);
  registry.asked.length = 0;
  // Here it does not support ranges: the whole blob comes again.
  registry.before = (request, response) => {
    if (!request.headers.range) return false;
    response.writeHead(200).end(registry.blobs.get(large));
    return true;
  };
  expect((await pull(other, registry)).isNew).toBe(true);
  expect(registry.asked.some(({ headers }) => headers.range !== undefined)).toBe(true);
  expect(await readdir(join(other.path, "downloads"))).toEqual([]);
});

test("a wrong beginning that an earlier pull left costs a download, not the image", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  const manifest = registry.image("v1", [await two()], { packed: (tar) => tar });
  const [layer] = manifest.layers;
  const folder = join(at.path, "downloads");
  await mkdir(folder);
  const part = (host: string) => join(folder, `${layer?.digest.slice(7)}-${sha256(host).slice(0, 16)}.part`);
  await writeFile(part(registry.host), "x".repeat(1000));
  await writeFile(part("elsewhere.example"), "y".repeat(1000));
  expect((await pull(at, registry)).isNew).toBe(true);
  const blobs = registry.asked.filter(({ path }) => path.endsWith(layer?.digest ?? "?"));
  expect(blobs.map(({ headers }) => headers.range)).toEqual(["bytes=1000-", undefined]);
  // The beginning that another registry sent was left alone; one that is under way is kept when the rest is deleted.
  expect(await readdir(folder)).toEqual([basename(part("elsewhere.example"))]);
  const underWay = `${"0".repeat(64)}-${"0".repeat(16)}.${processTag()}`;
  await writeFile(join(folder, underWay), "");
  await pruneDownloads(folder);
  expect(await readdir(folder)).toEqual([underWay]);
  await pruneDownloads(join(at.path, "no-such-folder"));
});

test("naming the layer of another team's image is not enough to get its files", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  const { layers } = registry.image("v1", [await one()]);
  const mine = await pull(at, registry, { options: { owner: "team_a" } });
  const blob = registry.blobs.get(layers[0]?.digest ?? "") ?? Buffer.alloc(0);
  registry.blobs.delete(layers[0]?.digest ?? "");
  await expect(pull(at, registry)).rejects.toThrow("Cannot");
  await expect(pull(at, registry, { options: { owner: "team_b" } })).rejects.toThrow("Cannot");
  // The team itself, and whose registry has the layer, share what is in the store.
  const again = await pull(at, registry, { options: { owner: "team_a", name: "again" } });
  registry.put(blob);
  const theirs = await pull(at, registry, { options: { owner: "team_b" } });
  expect([again.image.kept, theirs.image.kept]).toEqual([mine.image.kept, mine.image.kept]);
});

test("a connection to a private address does not serve a request that may not go there", async () => {
  const registry = await new TestRegistry().listen();
  const url = new URL(`http://${registry.host.replace("127.0.0.1", "localhost")}/`);
  await readAll(await ask({ url, mayBePrivate: true, patience }), 1000, "it");
  expect(await refusal(ask({ url, mayBePrivate: false, patience }))).toMatch(/^forbidden: .*not a public address/);
});

test("what is not what its digest or its size says is refused, and leaves nothing", async () => {
  const registry = await new TestRegistry().listen();
  const layer = await one();
  const manifest = registry.image("v1", [layer], { packed: (tar) => tar });
  const lie = (changes: object) => registry.tags.set("v1", Buffer.from(JSON.stringify({ ...manifest, ...changes })));
  const [real] = manifest.layers;
  const cases: [string, () => unknown, RegExp][] = [
    ["a blob", () => registry.blobs.set(real?.digest ?? "", Buffer.alloc(layer.length)), /not what its digest says/],
    ["a size too small", () => lie({ layers: [{ ...real, size: 10 }] }), /does not have the 10 bytes/],
    ["a size too large", () => lie({ layers: [{ ...real, size: layer.length + 1 }] }), /cut short|does not have/],
    ["an absurd size", () => lie({ layers: [{ ...real, size: 2 ** 50 }] }), /^limit: .*larger than/],
    ["no size", () => lie({ layers: [{ digest: real?.digest }] }), /does not say how large/],
    ["10,000 layers", () => lie({ layers: Array.from({ length: 10_000 }, () => real) }), /not what it should be/],
    ["a config", () => registry.blobs.set(manifest.config.digest, Buffer.from("{}")), /config is not what its digest/],
    ["no JSON", () => registry.tags.set("v1", Buffer.from("<html>")), /is no JSON/],
    ["the first format", () => registry.tags.set("v1", Buffer.from('{"schemaVersion":1}')), /first format/],
  ];
  for (const [what, spoil, says] of cases) {
    const at = await store({ volumes: true });
    registry.image("v1", [layer], { packed: (tar) => tar });
    spoil();
    expect(await refusal(pull(at, registry)), what).toMatch(says);
    await nothingLeft(at);
  }
  // A manifest requested by digest, and a registry that reports another digest than its manifest has.
  const at = await store({ volumes: true });
  registry.image("v1", [layer]);
  registry.before = (_, response) =>
    Boolean(response.writeHead(200, { "docker-content-digest": "sha256:0" }).end("{}"));
  expect(await refusal(pull(at, registry))).toMatch(/manifest is not what its digest says/);
  expect(await refusal(pull(at, registry, { name: `@sha256:${"a".repeat(64)}` }))).toMatch(/not what its digest says/);
});

test("layers that unpack to more than there is room for stop when the room is gone", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  const bomb = await tarOf([{ name: "zeros", content: "\0".repeat(200 << 20) }]);
  registry.image("v1", [bomb]);
  let looks = 0;
  const room = {
    ...stores(at),
    requireRoom: () => {
      if (++looks > 2) throw new Error("no room");
    },
  };
  const settings = { http: [registry.host], private: [], mirrors: {}, patience };
  const options = { settings, credentials: { find: async () => undefined }, isTrusted: true };
  const reference = parseReference(`${registry.host}/team/app:v1`);
  await expect(pullImage(room, reference, options)).rejects.toThrow("no room");
  await nothingLeft(at);
});

test("a pull from a stalled or very slow registry fails, and other pulls go on meanwhile", async () => {
  const [at, slow, quick] = [
    await store({ volumes: true }),
    await new TestRegistry().listen(),
    await new TestRegistry().listen(),
  ];
  for (const registry of [slow, quick]) registry.image("v1", [await one()]);
  const settings = { http: [slow.host, quick.host], private: [], mirrors: {} };
  const credentials = { find: async () => undefined };
  slow.before = () => true;
  expect(await refusal(pull(at, slow, { patience: { ...patience, idle: 100 } }))).toMatch(
    /^timeout: .*sent nothing for 0.1 s/,
  );
  // One that never ends with what comes before an answer.
  slow.before = (_, response) => {
    for (let hints = 0; hints < 100; hints++) response.writeEarlyHints({ link: "</a>; rel=preload" });
    return true;
  };
  const hinted = ask({ url: new URL(`http://${slow.host}/`), mayBePrivate: true, patience });
  expect(await refusal(hinted)).toMatch(/^unavailable: .*more than 16 informational answers/);
  // An answer that has begun is a download that may be continued.
  slow.before = (_, response) => response.writeHead(200, { "content-length": 10 }).write("half");
  const begun = await ask({
    url: new URL(`http://${slow.host}/`),
    mayBePrivate: true,
    patience: { ...patience, idle: 2000 },
  });
  expect(await refusal(readAll(begun, 100, "it"))).toMatch(/^unavailable: .*sent nothing for 2 s/);
  slow.before = (request, response) => {
    if (!request.url?.includes("/blobs/")) return false;
    const drip = setInterval(() => response.write("x"), 20);
    response.once("close", () => clearInterval(drip));
    return true;
  };
  const dripped = { ...patience, window: 300, least: 1000 };
  expect(await refusal(pull(at, slow, { patience: dripped }))).toMatch(/^timeout: .*almost nothing/);
  const registries = [slow.host, quick.host];
  const base = { registries, settings: { ...settings, patience }, credentials };
  const hurried = new Puller(stores(at), { ...base, timeout: 200 });
  expect(await refusal(hurried.pull(`${slow.host}/team/app:v1`, "team_slow"))).toMatch(
    /^timeout: .*SANDKEEP_PULL_TIMEOUT/,
  );

  const puller = new Puller(stores(at), { ...base, timeout: 600_000, patience: 50 });
  const held: ServerResponse[] = [];
  slow.before = (_, response) => held.push(response) > 0;
  let ended = 0;
  const late = Array.from({ length: 8 }, (_, index) =>
    refusal(puller.pull(`${slow.host}/team/app:v${index}`, "team_slow")).finally(() => ended++),
  );
  // A pull of another team waits for none of these.
  const image = await puller.pull(`${quick.host}/team/app:v1`, "team_quick");
  expect(image).toMatchObject({ name: `${quick.host}/team/app:v1` });
  expect(ended).toBe(0);
  // However patient the others are, no team has more than four under way.
  expect(held.length).toBeLessThanOrEqual(4);
  slow.before = (_, response) => Boolean(response.destroy());
  for (const response of held) response.destroy();
  for (const each of await Promise.all(late)) expect(each).toMatch(/^unavailable: Cannot reach/);
});

test("many requests for one image cause one pull, and only listed registries are used", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  registry.image("v1", [await one()]);
  const settings = { http: [registry.host], private: [], mirrors: {}, patience };
  const base = { settings, credentials: { find: async () => undefined }, timeout: 10_000 };
  const puller = new Puller(stores(at), { ...base, registries: [`${registry.host}/team`] });
  const name = `${registry.host}/team/app:v1`;
  const images = await Promise.all(Array.from({ length: 20 }, (_, index) => puller.pull(name, `team_${index}`)));
  expect(new Set(images.map((image) => image?.digest)).size).toBe(1);
  expect(registry.asked.filter(({ path }) => path.includes("/manifests/"))).toHaveLength(1);
  for (const other of [
    `${registry.host}/other/app:v1`,
    "host",
    "not a name",
    "~team_a~x",
    `${registry.host}/teams/app`,
  ]) {
    expect(await puller.pull(other, "team_a"), other).toBeUndefined();
  }
  // Under "*" callers choose the host, so addresses of this network stay closed.
  const open = new Puller(stores(at), { ...base, registries: ["*"], settings: { ...settings, http: [] } });
  expect(await refusal(open.pull(`${registry.host}/team/app:v2`, "team_a"))).toMatch(
    /^forbidden: .*not a public address/,
  );
});

test("what the operator or the team has under a name is not replaced by what a registry has under it", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  registry.image("v1", [await one()], { env: ["FROM=registry"] });
  const settings = { http: [registry.host], private: [], mirrors: {}, patience };
  const base = { settings, credentials: { find: async () => undefined }, timeout: 10_000 };
  const puller = new Puller(stores(at), { ...base, registries: [registry.host] });
  const name = `${registry.host}/team/app:v1`;
  const mine = await importRootfs(stores(at), Readable.from([await one()]), { name, node: false });
  expect(await puller.pull(name, "team_a")).toMatchObject({ version: mine.version });
  await importRootfs(stores(at), Readable.from([await one()]), {
    name: `${registry.host}/team/app:v2`,
    owner: "team_a",
    node: false,
  });
  expect(await puller.pull(`${registry.host}/team/app:v2`, "team_a")).toMatchObject({ owner: "team_a" });
  expect(registry.asked).toEqual([]);
  await at.images.delete(name);
  expect(await puller.pull(name, "team_a")).toMatchObject({ env: { FROM: "registry" } });
  expect(await puller.pull(name, "team_a", { onlyIf: name })).toMatchObject({ env: { FROM: "registry" } });
  expect(await puller.pull(name, "team_a", { onlyIf: "docker.io/team/app:v1" })).toBeUndefined();
});

test("credentials go to the registry and its own token server, never along with a redirect or to another host", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  const login = { [registry.host]: { user: "me", password: "pass:word" } };
  const basic = `Basic ${Buffer.from("me:pass:word").toString("base64")}`;
  registry.image("v1", [await one()]);
  const heard: IncomingMessage["headers"][] = [];
  const elsewhere = await serve(({ url, headers }, response) => {
    heard.push(headers);
    if (url?.startsWith("/token")) return void response.end('{"token":"other"}');
    response.end(registry.blobs.get(url?.slice(1) ?? ""));
  });
  registry.before = ({ url = "", headers }, response) => {
    if (headers.authorization !== basic) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="here"' }).end();
      return true;
    }
    if (!url.includes("/blobs/")) return false;
    response.writeHead(307, { location: `http://${elsewhere}/${url.split("/").at(-1)}` }).end();
    return true;
  };
  expect(await refusal(pull(at, registry))).toMatch(/^forbidden: .*lets only others have it .*registry login/);
  // A redirect to an address of this network, or to plain HTTP, is refused unless the operator says otherwise.
  expect(await refusal(pull(at, registry, { login }))).toMatch(/^forbidden: .*127.0.0.1 is not a public address/);
  expect(heard).toEqual([]);
  expect(await pull(at, registry, { login, private: [registry.host] })).toMatchObject({ isNew: true });
  expect(heard.length).toBeGreaterThan(1);
  expect(heard.filter(({ authorization }) => authorization !== undefined)).toEqual([]);

  // A token server elsewhere gets no password; the registry's own one does.
  const other = await store({ volumes: true });
  heard.length = 0;
  let realm = `http://${elsewhere}/token`;
  const tokens: (string | undefined)[] = [];
  registry.before = ({ url = "", headers }, response) => {
    if (url.startsWith("/token")) {
      tokens.push(headers.authorization);
      response.end(headers.authorization === basic ? '{"access_token":"good"}' : "{}");
      return true;
    }
    if (headers.authorization === "Bearer good") return false;
    response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}",service="s"` }).end();
    return true;
  };
  expect(await refusal(pull(other, registry, { login, private: [registry.host] }))).toMatch(/^forbidden/);
  expect(heard.map(({ authorization }) => authorization)).toEqual([undefined]);
  realm = `http://${registry.host}/token`;
  expect((await pull(other, registry, { login })).isNew).toBe(true);
  expect(tokens).toEqual([basic]);
  expect(registry.asked.some(({ path }) => path === "/token?service=s&scope=repository%3Ateam%2Fapp%3Apull")).toBe(
    true,
  );
});

test("a mirror is asked first, and the registry if the mirror lacks the image or is down", async () => {
  const [at, registry, mirror] = [
    await store({ volumes: true }),
    await new TestRegistry().listen(),
    await new TestRegistry().listen(),
  ];
  registry.image("v1", [await one()]);
  const http = [registry.host, mirror.host];
  const asks: string[] = [];
  mirror.before = ({ url = "" }, response) => {
    asks.push(url);
    const [, rest = ""] = url.split("/v2/cache/team/app/");
    const [kind = "", name = ""] = rest.split("/");
    const found = kind === "manifests" ? registry.tags.get(name) : registry.blobs.get(name);
    response.writeHead(found ? 200 : 404).end(found);
    return true;
  };
  await pull(at, registry, { http, mirrors: { [registry.host]: `${mirror.host}/cache` } });
  expect(asks[0]).toBe("/v2/cache/team/app/manifests/v1");
  expect(registry.asked).toEqual([]);
  mirror.before = (_, response) => Boolean(response.writeHead(404).end());
  const other = await store({ volumes: true });
  expect((await pull(other, registry, { http, mirrors: { [registry.host]: mirror.host } })).isNew).toBe(true);
  const third = await store({ volumes: true });
  expect((await pull(third, registry, { http, mirrors: { [registry.host]: "127.0.0.1:9" } })).isNew).toBe(true);
});

test("a tag that changes during a pull gives one image or the other, never a mixture", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  registry.image("v1", [await one()], { env: ["N=1"] });
  const first = registry.tags.get("v1") ?? Buffer.alloc(0);
  const index = (manifest: Buffer) =>
    Buffer.from(JSON.stringify({ manifests: [{ digest: `sha256:${sha256(manifest)}` }] }));
  registry.tags.set("v1", index(first));
  registry.blobs.set(`sha256:${sha256(first)}`, first);
  registry.before = ({ url = "" }) => {
    if (!url.endsWith("/manifests/v1")) return false;
    setImmediate(async () => {
      registry.image("v1", [await two()], { env: ["N=2"] });
    });
    return false;
  };
  expect((await pull(at, registry)).image.env).toMatchObject({ N: "1" });
  registry.before = () => false;
  expect(await pull(at, registry)).toMatchObject({ isNew: true, image: { env: { N: "2" } } });
});
