/** The operator's settings of the way out as the egress process is given them: files are read and checked here, once. */

import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Config } from "./config.ts";
import type { EgressSettings } from "./core/egress-settings.ts";
import { messageOf, SandkeepError } from "./core/errors.ts";

export function egressSettingsOf(config: Config): EgressSettings {
  return {
    allow: config.egressAllow,
    deny: config.egressDeny,
    resolvers: config.dns,
    roots: config.egressCa === undefined ? [] : certificatesIn(config.egressCa),
  };
}

/** each certificate of a file by itself; a file that has none, or one that cannot be read, stops the start */
function certificatesIn(file: string): string[] {
  const refuse = (why: string, cause?: unknown) =>
    new SandkeepError("invalid", `Cannot use SANDKEEP_EGRESS_CA "${file}": ${why}`, { cause });
  let text: string;
  try {
    text = readFileSync(file, "latin1");
  } catch (cause) {
    throw refuse(messageOf(cause), cause);
  }
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  if (found.length === 0) throw refuse("it has no certificate in PEM");
  return found.map((pem, at) => {
    try {
      return `${new X509Certificate(pem).toString().trim()}\n`;
    } catch (cause) {
      throw refuse(`certificate ${at + 1} of it cannot be read`, cause);
    }
  });
}
