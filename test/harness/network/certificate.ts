/** Certificates for tests that serve TLS: made by openssl for any names, each with an authority of its own. */

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { demand } from "../../runner/needs.ts";
import { tempDir, type Undo } from "../harness.ts";

/** Paths of files in PEM. */
export interface CertificateFiles {
  /** of the authority, for clients to trust */
  ca: string;
  cert: string;
  key: string;
}

/** `names` such as "DNS:*.example.com" or "IP:127.0.0.1"; deleted with the test or the stack */
export async function certificateFor(names: string[], undo?: Undo): Promise<CertificateFiles> {
  demand("the command openssl");
  const folder = await tempDir(undo);
  const [ca = "", caKey = "", cert = "", key = "", config = ""] = [
    ...["ca.pem", "ca-key.pem", "cert.pem", "key.pem", "config"].map((name) => join(folder, name)),
  ];
  // Without one, openssl adds extensions of the host's configuration.
  await writeFile(config, "[req]\ndistinguished_name = name\n[name]\n");
  const make = (...args: string[]) =>
    promisify(execFile)("openssl", [
      ...["req", "-x509", "-config", config, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
      ...["-days", "2", ...args],
    ]);
  const authority = ["-addext", "basicConstraints=critical,CA:TRUE", "-subj", "/CN=authority of a test"];
  await make(...authority, "-keyout", caKey, "-out", ca);
  const server = ["-addext", "basicConstraints=CA:FALSE", "-addext", `subjectAltName=${names.join(",")}`];
  await make(...server, "-subj", "/CN=server", "-CA", ca, "-CAkey", caKey, "-keyout", key, "-out", cert);
  return { ca, cert, key };
}
