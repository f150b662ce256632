/** Turns a failed fetch to the daemon into a sentence and a hint, by the cause of the error. */

import { codeOf } from "../../base/error-code.ts";
import { CliError, NoAnswer } from "../errors.ts";

export function unreachable(url: string, error: unknown): CliError {
  const { host, hostname } = new URL(url);
  const code = reasonOf(error);
  if (code === "ENOTFOUND" || code === "EAI_AGAIN")
    return new CliError(`Cannot reach the daemon at "${url}": no address is known for "${hostname}" (${code})`);
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG")
    return new CliError(
      `Cannot reach the daemon at "${url}": something answers there, but not with TLS`,
      `if the daemon speaks HTTP there, its address is ${url.replace("https:", "http:")}`,
    );
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return new CliError(
      `Cannot reach the daemon at "${url}": its certificate is not for "${hostname}"`,
      "--url or SANDKEEP_URL names the daemon by a name of its certificate",
    );
  if (isAboutCertificates(code))
    return new CliError(
      `Cannot reach the daemon at "${url}": the certificate of "${host}" is not trusted (${code})`,
      "NODE_EXTRA_CA_CERTS names a file with further certificates to trust",
    );
  if (code === "TimeoutError") return new NoAnswer(`Cannot reach the daemon at "${url}": it does not answer in time`);
  const why = code === "ECONNREFUSED" || code === "" ? "" : ` (${code})`;
  return new NoAnswer(
    `Cannot reach the daemon at "${url}": nothing answers there${why}`,
    "start it with: sandkeep serve",
  );
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  if (error.name === "TimeoutError") return error.name;
  // `fetch` wraps the error of the connection; node:http does not.
  const cause = error.cause ?? error;
  // If a name has several addresses, each attempt has its own error; the first one counts.
  return codeOf(cause instanceof AggregateError ? cause.errors[0] : cause) ?? "";
}

/** OpenSSL's codes for a bad chain, and Node's for a wrong name */
function isAboutCertificates(code: string): boolean {
  return /CERT|^UNABLE_TO_|^ERR_TLS_/.test(code);
}
