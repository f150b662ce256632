/** Java's store of certificates as we write it, read by Java's own tool. */

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { needs } from "../../../../test/runner/needs.ts";
import { certificateOf, deriveAuthority } from "../../../egress/intercept/authority.ts";
import { withCertificates } from "./java-store.ts";

const [one = "", two = "", three = ""] = ["one", "two", "three"].map((name) =>
  certificateOf(deriveAuthority(Buffer.alloc(32, name), name)),
);

describe.each(["JKS", "PKCS12"])("a store of Java's own, of type %s", (type) => {
  beforeEach((context) => needs(context, "the command keytool"));

  test("keeps its certificates and gets the missing ones, in a form that Java trusts", async () => {
    const folder = await tempDir();
    const store = await made(folder, type, [one, two]);
    const more = withCertificates(await readFile(store), [two, three]);
    expect(more).toBeDefined();
    const file = join(folder, "more");
    await writeFile(file, more ?? "");
    const listed = keytool("-list", "-rfc", "-keystore", file, "-storepass", "changeit");
    for (const pem of [one, two, three]) expect(listed).toContain(pem.trim().split("\n")[1]);
    expect(listed.match(/BEGIN CERTIFICATE/g)).toHaveLength(3);
  });

  test("is left unchanged if nothing is missing", async () => {
    const store = await made(await tempDir(), type, [one, two]);
    expect(withCertificates(await readFile(store), [two])).toBeUndefined();
  });
});

test("a file that is not a store is left unchanged", () => {
  for (const bytes of [Buffer.alloc(0), Buffer.from("feedfeed00000002000000ff", "hex"), Buffer.alloc(100, 1)]) {
    expect(withCertificates(bytes, [one])).toBeUndefined();
  }
});

/** later versions of Java come with a store without a password; these options make such a one */
async function made(folder: string, type: string, pems: string[]): Promise<string> {
  const store = join(folder, "cacerts");
  for (const [at, pem] of pems.entries()) {
    const file = join(folder, `${at}.pem`);
    writeFileSync(file, pem);
    const open = ["-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE", "-J-Dkeystore.pkcs12.macAlgorithm=NONE"];
    const into = ["-keystore", store, "-storetype", type, "-storepass", "changeit"];
    keytool(...open, "-importcert", "-noprompt", "-alias", `a${at}`, "-file", file, ...into);
  }
  return store;
}

function keytool(...args: string[]): string {
  return execFileSync("keytool", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}
