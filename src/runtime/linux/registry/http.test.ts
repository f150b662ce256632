/** Tests of what a failed connection to a registry is called. */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer as createPlain, type Server } from "node:http";
import { createServer as createSecure } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { certificateFor } from "../../../../test/harness/network/certificate.ts";
import { ask, readAll } from "./http.ts";

const patience = { idle: 60_000, window: 60_000, least: 1 };

async function listening(server: Server): Promise<URL> {
  server.on("request", (_, response) => response.end("hello"));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`);
}

test("a registry without TLS, and one whose certificate is not trusted, name the setting that helps", async () => {
  const plain = await listening(createPlain());
  expect(await refusal(ask({ url: plain, mayBePrivate: true, patience }))).toBe(
    `unavailable: Cannot reach "${plain.host}": it does not answer with TLS (SANDKEEP_REGISTRY_HTTP lists registries without it)`,
  );
  const { ca, cert, key } = await certificateFor(["IP:127.0.0.1"]);
  const secure = await listening(createSecure({ cert: await readFile(cert), key: await readFile(key) }));
  expect(await refusal(ask({ url: secure, mayBePrivate: true, patience }))).toMatch(
    /its certificate is not trusted: [A-Z_]+ \(SANDKEEP_EGRESS_CA names a file with further certificates\)$/,
  );
  const roots = [await readFile(ca, "utf8")];
  const answer = await ask({ url: secure, mayBePrivate: true, patience, roots });
  expect((await readAll(answer, 100, "it")).toString()).toBe("hello");
});
