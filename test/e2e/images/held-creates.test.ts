/**
 * A create that waits for its image: the answer is held until the sandbox runs, because no SDK waits for a session that is
 * pending. The daemon answers others meanwhile, and a client that leaves gets no sandbox.
 */

import { readFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { Sandbox as OtherSandbox } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { tarOf } from "../../harness/images/image-archives.ts";
import { TestRegistry } from "../../harness/images/test-registry.ts";
import { accessTo, raw, sdks } from "../clients.ts";

const daemon = daemonOfFile();

test.each(Object.entries(sdks))("SDK %s does not wait for a session that is pending", async (_, { Sandbox }) => {
  const { fetch: send, ...credentials } = accessTo(daemon());
  const asked: string[] = [];
  const pending: typeof fetch = async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    asked.push(`${init?.method ?? "GET"} ${pathname}`);
    const answer = await send(input, init);
    if (asked.length > 1) return answer;
    const body = (await answer.text()).replaceAll('"status":"running"', '"status":"pending"');
    return new Response(body, { status: answer.status, headers: { "content-type": "application/json" } });
  };
  const sandbox = await Sandbox.create({ ...credentials, fetch: pending, persistent: false });
  expect(sandbox.status).toBe("pending");
  expect(asked).toHaveLength(1);
  await sandbox.runCommand("true");
  expect(asked[1]).toMatch(/^POST .*\/cmd$/);
  await sandbox.delete();
});

test("a create is held while its image arrives, others are answered, and a client that leaves gets no sandbox", async () => {
  const registry = await new TestRegistry().listen();
  const busybox = await readFile("/bin/busybox");
  const tar = (tag: string) =>
    tarOf([
      { name: "bin/sh", content: busybox, mode: 0o755 },
      { name: "tag", content: tag },
    ]);
  const held: ServerResponse[] = [];
  let isHeld = true;
  registry.before = ({ url = "" }, response) => {
    const blob = registry.blobs.get(url.split("/").at(-1) ?? "");
    if (!isHeld || !blob || blob.length < 100_000) return false;
    // Half of a layer, and then nothing until it is released.
    response.writeHead(200, { "content-length": blob.length }).write(blob.subarray(0, blob.length / 2));
    held.push(Object.assign(response, { rest: blob.subarray(blob.length / 2) }));
    return true;
  };
  const release = () => {
    isHeld = false;
    for (const response of held.splice(0)) response.end((response as ServerResponse & { rest: Buffer }).rest);
  };
  await daemon().kill9();
  await daemon().start({ SANDKEEP_REGISTRIES: registry.host, SANDKEEP_REGISTRY_HTTP: registry.host });
  const access = accessTo(daemon());
  const headers = { "x-api-key": daemon().key };
  const listed = async () => (await raw(daemon(), "GET", "/v2/sandboxes", { headers })).json.length;

  for (const [version, { Sandbox }] of Object.entries(sdks)) {
    isHeld = true;
    registry.image(version, [await tar(version)]);
    const creating = Sandbox.create({ ...access, image: `${registry.host}/team/app:${version}`, persistent: false });
    let isCreated = false;
    void creating.then(() => {
      isCreated = true;
    });
    await eventually("half of the layer was asked for", () => held.length > 0);
    expect([await listed(), isCreated]).toEqual([0, false]);
    release();
    const sandbox = await creating;
    expect(sandbox.status).toBe("running");
    const done = await sandbox.runCommand("sh", ["-c", "read line < /tag; echo $line"]);
    expect(await done.stdout()).toBe(`${version}\n`);
    await sandbox.delete();

    // One that leaves during the pull, which goes on.
    isHeld = true;
    registry.image(`${version}-left`, [await tar(`${version}-left`)]);
    const left = new AbortController();
    const image = `${registry.host}/team/app:${version}-left`;
    const aborted = Sandbox.create({ ...access, image, persistent: false, signal: left.signal });
    await eventually("half of the layer was asked for", () => held.length > 0);
    left.abort();
    await expect(aborted).rejects.toThrow();
    release();
    await eventually("the image is there", async () => (await imageNames()).includes(image));
    await eventually("there is no sandbox", async () => (await listed()) === 0);
  }

  // E2B's SDK gives up after a minute, and the next create finds the image. The first request is sent without the SDK:
  // Node may collect the web Request that an SDK hands to fetch(), and then neither its timer nor its signal ends it.
  isHeld = true;
  registry.image("other", [await tar("other")]);
  const other = `${registry.host}/team/app:other`;
  const options = { apiKey: daemon().key, apiUrl: daemon().url };
  const left = new AbortController();
  const late = fetch(`${daemon().url}/sandboxes`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ templateID: other }),
    signal: left.signal,
  });
  await eventually("half of the layer was asked for", () => held.length > 0);
  left.abort();
  await expect(late).rejects.toThrow(/abort/i);
  release();
  await eventually("the image is there", async () => (await imageNames()).includes(other));
  await eventually("there is no sandbox", async () => (await listed()) === 0);
  const made = await OtherSandbox.create(other, options);
  // The first one may have begun to boot before it was given up.
  await eventually("only the second sandbox is there", async () => (await listed()) === 1);
  await made.kill();
});

async function imageNames(): Promise<string[]> {
  const { json } = await raw(daemon(), "GET", "/sandkeep/v1/images", {
    headers: { authorization: `Bearer ${daemon().key}` },
  });
  return json.images.map(({ name }: { name: string }) => name);
}
