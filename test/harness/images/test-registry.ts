/** A registry of a test's own, on loopback. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { onTestFinished } from "vitest";
import { arch, sha256 } from "./image-archives.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A registry with blobs and tags that a test puts into it; `before` may answer in its place. */
export class TestRegistry {
  readonly blobs = new Map<string, Buffer>();
  readonly tags = new Map<string, Buffer>();
  readonly asked: { path: string; headers: IncomingMessage["headers"] }[] = [];
  before: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  host = "";

  async listen(): Promise<this> {
    this.host = await serve((request, response) => {
      this.asked.push({ path: request.url ?? "", headers: request.headers });
      if (!this.before(request, response)) this.#answer(request.url ?? "", request, response);
    });
    return this;
  }

  put(content: Buffer): { digest: string; size: number } {
    this.blobs.set(`sha256:${sha256(content)}`, content);
    return { digest: `sha256:${sha256(content)}`, size: content.length };
  }

  /** an image under a tag; `changed` may lie in its manifest */
  image(tag: string, layers: Buffer[], { packed = gzipSync as (tar: Buffer) => Buffer, env = [] as string[] } = {}) {
    const diffIds = layers.map((layer) => `sha256:${sha256(layer)}`);
    const config = {
      architecture: arch,
      os: "linux",
      config: { Env: env },
      rootfs: { type: "layers", diff_ids: diffIds },
    };
    const manifest = {
      schemaVersion: 2,
      config: this.put(Buffer.from(JSON.stringify(config))),
      layers: layers.map((layer) => this.put(packed(layer))),
    };
    this.tags.set(tag, Buffer.from(JSON.stringify(manifest)));
    return manifest;
  }

  #answer(path: string, { headers }: IncomingMessage, response: ServerResponse): void {
    const [, kind, name = ""] = /^\/v2\/team\/app\/(manifests|blobs)\/(.+)$/.exec(path) ?? [];
    const manifests = [...this.tags.values(), ...this.blobs.values()];
    const byDigest = manifests.find((content) => `sha256:${sha256(content)}` === name);
    const found = kind === "blobs" ? this.blobs.get(name) : (this.tags.get(name) ?? byDigest);
    if (!found) return void response.writeHead(404).end('{"errors":[{"code":"MANIFEST_UNKNOWN"}]}');
    const [, from] = /^bytes=(\d+)-$/.exec(headers.range ?? "") ?? [];
    if (from === undefined) return void response.writeHead(200).end(found);
    const range = `bytes ${from}-${found.length - 1}/${found.length}`;
    response.writeHead(206, { "content-range": range }).end(found.subarray(Number(from)));
  }
}

export async function serve(answer: Answer): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise((resolve) => server.once("listening", resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
