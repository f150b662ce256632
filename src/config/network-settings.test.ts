/** Tests of what a host trusts, with folders that stand for hosts. */

import { X509Certificate } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { rootCertificates } from "node:tls";
import { expect, test } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import type { Config } from "./config.ts";
import { egressSettingsOf, trustedRootsOf } from "./network-settings.ts";

const common = `${rootCertificates[0]}\n`;
const company = pem("the company");
const distributed = pem("only this distribution");

/** no certificate, but written like one */
function pem(name: string): string {
  const lines =
    Buffer.from(name.repeat(9))
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

// Only what these functions read.
const config = { egressAllow: [], egressDeny: [], dns: ["192.0.2.1"] } as unknown as Config;

/** a host with these files */
async function host(files: Record<string, string>): Promise<string> {
  const root = await tempDir();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  return root;
}

test.each([
  "etc/ssl/certs/ca-certificates.crt",
  "etc/pki/tls/certs/ca-bundle.crt",
  "etc/ssl/ca-bundle.pem",
  "etc/ssl/cert.pem",
])("of the host's list in %s, sandboxes are given what Node does not have anyway", async (path) => {
  const bundle = `# a comment\n${common}${company}`;
  expect(trustedRootsOf(config, await host({ [path]: bundle }))).toEqual({ pems: [company], bundle });
});

test("what the distribution brings is not the company's, however its lines are broken", async () => {
  const root = await host({
    "etc/ssl/certs/ca-certificates.crt": common + distributed + company.replaceAll("\n", "\r\n"),
    "usr/share/ca-certificates/mozilla/Distributed.crt": distributed.replaceAll("\n", "\r\n"),
  });
  expect(trustedRootsOf(config, root).pems).toEqual([company]);
});

test("a certificate of SANDKEEP_EGRESS_CA that the host has in its list is given once", async () => {
  const real = `${new X509Certificate(rootCertificates[1] ?? "").toString().trim()}\n`;
  const root = await host({ "etc/ssl/cert.pem": company, "own.pem": company + real });
  const own = { ...config, egressCa: join(root, "own.pem") };
  expect(() => trustedRootsOf(own, root)).toThrow(/certificate 1 of it cannot be read/);
  await writeFile(own.egressCa, real + real.replaceAll("\n", "\r\n"));
  expect(trustedRootsOf(own, root).pems).toEqual([company, real]);
  expect(egressSettingsOf(own).roots).toContain(real);
});

test("a host without a list trusts what Node trusts, and no more", async () => {
  expect(trustedRootsOf(config, await host({}))).toEqual({ pems: [], bundle: "" });
});
