/** The certificate for TLS: which files can be served with, and a sentence for each that cannot, without the key in it. */

import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { certificateFor } from "../../test/harness/network/certificate.ts";
import { readConfig } from "./config.ts";
import { tlsIdentityOf, tlsProblems } from "./tls-settings.ts";

const names = ["DNS:example.com", "DNS:*.example.com", "IP:127.0.0.1"];

test("a certificate and its key are read, and say which hosts they are for", async () => {
  const { cert, key } = await certificateFor(names);
  const identity = tlsIdentityOf(readConfig(["--tls-cert", cert, "--tls-key", key], {}));
  expect(identity?.names).toEqual(["example.com", "*.example.com", "127.0.0.1"]);
  const hosts = ["example.com", "a.example.com", "127.0.0.1", "a.b.example.com", "127.0.0.2", "localhost"];
  expect(hosts.map((host) => identity?.covers(host))).toEqual([true, true, true, false, false, false]);
  expect(tlsIdentityOf(readConfig([], {}))).toBeUndefined();
});

test("an expired certificate, or one without the ports' domain, is a sentence each", async () => {
  const { cert, key } = await certificateFor(names);
  const identity = tlsIdentityOf({ tlsCert: cert, tlsKey: key });
  if (!identity) throw new Error("There is no certificate");
  expect(tlsProblems(identity, "example.com", Date.now())).toEqual([]);
  const list = "example.com, *.example.com, 127.0.0.1";
  expect(tlsProblems(identity, "example.org", identity.validTo)).toEqual([
    expect.stringMatching(/^The TLS certificate for .* expired on \d{4}-\d\d-\d\d: clients will refuse it$/),
    `The TLS certificate is for ${list}, not for *.example.org: clients will refuse the addresses of ports`,
  ]);
});

test("files that cannot be served with stop the start with a sentence, which has nothing of the key", async () => {
  const { cert, key } = await certificateFor(names);
  const other = await certificateFor(names);
  const use = (tlsCert?: string, tlsKey?: string) => () => tlsIdentityOf({ tlsCert, tlsKey });
  expect(use(cert)).toThrow(`Cannot use SANDKEEP_TLS_CERT "${cert}": SANDKEEP_TLS_KEY should name its private key`);
  expect(use(undefined, key)).toThrow(`Cannot use SANDKEEP_TLS_KEY "${key}": SANDKEEP_TLS_CERT should name`);
  expect(use("/nowhere.pem", key)).toThrow('Cannot use SANDKEEP_TLS_CERT "/nowhere.pem": there is no such file');
  expect(use(cert, "/nowhere.pem")).toThrow('Cannot use SANDKEEP_TLS_KEY "/nowhere.pem": there is no such file');
  expect(use(key, key)).toThrow(`Cannot use SANDKEEP_TLS_CERT "${key}": it has no certificate in PEM`);
  expect(use(cert, cert)).toThrow(`Cannot use SANDKEEP_TLS_KEY "${cert}": it has no private key in PEM`);
  expect(use(cert, other.key)).toThrow(`"${other.key}": it is not the key of the certificate in "${cert}"`);
  const secret = readFileSync(other.key, "utf8").split("\n")[1] ?? "";
  writeFileSync(other.key, readFileSync(other.key, "utf8").replace(secret, `${secret.slice(0, 20)}\n`));
  expect(use(other.cert, other.key)).toThrow(
    new RegExp(`^Cannot use SANDKEEP_TLS_KEY "${other.key}": its private key cannot be read$`),
  );
  writeFileSync(other.cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  expect(use(other.cert, key)).toThrow("its first certificate cannot be read");
  await promisify(execFile)("openssl", ["pkcs8", "-topk8", "-in", key, "-out", other.key, "-passout", "pass:secret"]);
  expect(use(cert, other.key)).toThrow("it has a password, and the daemon knows none");
});
