/** The authority of a sandbox: always the same, nobody else's, and believed by programs of all kinds. */

import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createServer } from "node:tls";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { listening } from "../../../test/internet/interception.ts";
import { needs } from "../../../test/runner/needs.ts";
import { certificateOf, deriveAuthority, openAuthority } from "./authority.ts";

const run = promisify(execFile);
const secret = Buffer.alloc(32, 7);

test("is the same for the same secret and sandbox, and another one for any other", () => {
  const one = deriveAuthority(secret, "sandbox-1");
  const again = deriveAuthority(Buffer.from(secret), "sandbox-1");
  expect(again).toEqual(one);
  expect(certificateOf(again)).toBe(certificateOf(one));
  const others = [deriveAuthority(secret, "sandbox-2"), deriveAuthority(Buffer.alloc(32, 8), "sandbox-1")];
  const all = [one, ...others].map((spec) => new X509Certificate(certificateOf(spec)));
  expect(new Set(all.map(({ subject }) => subject)).size).toBe(3);
  expect(new Set(all.map(({ serialNumber }) => serialNumber)).size).toBe(3);
  expect(new Set(all.map(({ publicKey }) => publicKey.export({ format: "jwk" }).x)).size).toBe(3);
});

test("is made again, when it was forgotten, with the same name, serial number and key", () => {
  const spec = deriveAuthority(secret, "forgotten");
  const first = new X509Certificate(certificateOf(spec));
  for (let i = 0; i < 100; i++) certificateOf(deriveAuthority(secret, `other-${i}`));
  const second = new X509Certificate(certificateOf(spec));
  expect(second.fingerprint256).not.toBe(first.fingerprint256);
  expect(second.subject).toBe(first.subject);
  expect(second.serialNumber).toBe(first.serialNumber);
  expect(first.verify(second.publicKey)).toBe(true);
});

test("is a certificate that may sign servers and nothing else", () => {
  const certificate = new X509Certificate(certificateOf(deriveAuthority(secret, "a")));
  expect(certificate.ca).toBe(true);
  expect(certificate.verify(certificate.publicKey)).toBe(true);
  expect(certificate.toString()).not.toContain("PRIVATE");
  expect(Date.parse(certificate.validTo)).toBeGreaterThan(Date.UTC(2045, 0));
});

test.for(["-tls1_3", "-tls1_2"])("OpenSSL believes its servers, by name, with %s", async (flag, context) => {
  needs(context, "the command openssl");
  const spec = deriveAuthority(secret, "openssl");
  const authority = openAuthority(spec);
  const server = createServer({ SNICallback: (name, done) => done(null, authority.leafFor(name)) }, (socket) =>
    socket.end(),
  );
  const port = await listening(server);
  const file = join(await tempDir(), "ca.pem");
  await writeFile(file, certificateOf(spec));
  const check = (name: string, expected: string) =>
    run("openssl", [
      "s_client",
      "-connect",
      `127.0.0.1:${port}`,
      "-servername",
      name,
      "-CAfile",
      file,
      flag,
      "-verify_return_error",
      "-x509_strict",
      "-verify_hostname",
      expected,
      "-brief",
    ]);
  const long = `${"a".repeat(60)}.${"b".repeat(60)}.example.test`;
  await check("api.example.test", "api.example.test");
  await check(long, long);
  await expect(check("api.example.test", "other.example.test")).rejects.toThrow();
});

test("certificates of servers are made once, short-lived, and renewed in time", () => {
  let now = Date.now();
  const authority = openAuthority(deriveAuthority(secret, "renewal"), () => now);
  const first = authority.leafFor("a.test");
  expect(authority.leafFor("a.test")).toBe(first);
  expect(authority.leafFor("b.test")).not.toBe(first);
  now += 6 * 24 * 60 * 60 * 1000;
  expect(authority.leafFor("a.test")).not.toBe(first);
});

test("names without number do not fill the memory", () => {
  const authority = openAuthority(deriveAuthority(secret, "flood"));
  const first = authority.leafFor("first.test");
  for (let i = 0; i < 2_000; i++) authority.leafFor(`x${i}.test`);
  expect(authority.leafFor("first.test")).not.toBe(first);
});
