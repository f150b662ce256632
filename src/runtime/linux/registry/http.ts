/**
 * One HTTP request to a registry or to its redirect. The server is not trusted: addresses that are not public are
 * refused unless they are allowed, a stalled or very slow answer is aborted, and an answer may not be longer than
 * requested.
 */

import { type IncomingMessage, request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { isIP } from "node:net";
import { codeOf } from "../../../base/error-code.ts";
import { guardedLookup } from "../../../base/guarded-lookup.ts";
import { limitInformational } from "../../../base/informational-answers.ts";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { isPublic } from "../../../core/network/special-ranges.ts";

export interface RegistryRequest {
  url: URL;
  headers?: Record<string, string>;
  /** fields of a form to send with POST; default: a GET */
  form?: URLSearchParams | undefined;
  /** whether the host may have an address that is not public */
  mayBePrivate: boolean;
  /** certificates to trust; default those that Node knows */
  roots?: string[] | undefined;
  patience: Patience;
  signal?: AbortSignal | undefined;
}

/** How long to wait for a registry. */
export interface Patience {
  /** most ms without a single byte */
  idle: number;
  /** ms in which at least `least` bytes must arrive */
  window: number;
  least: number;
}

export interface RegistryAnswer {
  status: number;
  headers: IncomingMessage["headers"];
  /** complete when it ends; throws when it is cut short, stalls, is too slow or is aborted */
  body: AsyncIterable<Buffer>;
  /** closes an answer that will not be read */
  discard(): void;
}

export function ask(request: RegistryRequest): Promise<RegistryAnswer> {
  const { url, headers = {}, form, mayBePrivate, roots, patience, signal } = request;
  const why = unreachable(url, mayBePrivate);
  if (why) return Promise.reject(why);
  const isSecure = url.protocol === "https:";
  return new Promise((resolve, reject) => {
    const asked = (isSecure ? secureRequest : plainRequest)(url, {
      method: form ? "POST" : "GET",
      headers: {
        "user-agent": "sandkeep",
        "accept-encoding": "identity",
        ...(form && { "content-type": "application/x-www-form-urlencoded" }),
        ...headers,
      },
      // Refuses a name that resolves to an address that is not public, at the moment of the connection.
      lookup: guardedLookup((host, address) => refusalOf(host, address, mayBePrivate)),
      // A connection of its own: one that is kept may lead to an address that this request must not reach.
      agent: false,
      ...(signal && { signal }),
      ...(isSecure && roots && { ca: roots }),
    });
    limitInformational(asked);
    const failed = (cause: Error) => reject(failure(url, cause, signal));
    asked.once("error", failed);
    let begun: IncomingMessage | undefined;
    asked.setTimeout(patience.idle, () => {
      // What has begun may be continued. To destroy its request would make its error "aborted".
      if (begun) begun.destroy(stalled("unavailable", url, patience.idle));
      else asked.destroy(stalled("timeout", url, patience.idle));
    });
    asked.once("response", (response) => {
      begun = response;
      asked.off("error", failed);
      // Later errors are errors of the answer's body.
      asked.on("error", () => undefined);
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        body: bodyOf(url, response, patience, signal),
        discard: () => void response.destroy(),
      });
    });
    asked.end(form?.toString());
  });
}

/** the content of a short answer */
export async function readAll({ body, discard }: RegistryAnswer, most: number, what: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body) {
      length += chunk.length;
      if (length > most)
        throw new SandkeepError("limit", `Cannot pull the image: ${what} is larger than ${most} bytes`);
      chunks.push(chunk);
    }
  } finally {
    discard();
  }
  return Buffer.concat(chunks);
}

async function* bodyOf(
  url: URL,
  response: IncomingMessage,
  { window, least }: Patience,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  let since = 0;
  const watch = setInterval(() => {
    // A connection that waits for our reader is not too slow.
    if (since < least && response.readableLength === 0) response.destroy(tooSlow(url, window));
    since = 0;
  }, window);
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      since += chunk.length;
      yield chunk;
    }
    if (!response.complete) throw new Error("it ended too early");
  } catch (error) {
    throw failure(url, error, signal);
  } finally {
    clearInterval(watch);
    response.destroy();
  }
}

function unreachable(url: URL, mayBePrivate: boolean): SandkeepError | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return new SandkeepError("invalid", `Cannot reach "${url.host}": "${url.protocol}" is no way to a registry`);
  }
  // A host that is an address is connected to without a lookup.
  return isIP(host) ? refusalOf(url.host, host, mayBePrivate) : undefined;
}

function refusalOf(host: string, address: string, mayBePrivate: boolean): SandkeepError | undefined {
  if (mayBePrivate || isPublic(address)) return undefined;
  const hint = "SANDKEEP_REGISTRY_PRIVATE lists registries that may lead to such addresses";
  return new SandkeepError("forbidden", `Cannot reach "${host}": ${address} is not a public address (${hint})`);
}

function stalled(code: "timeout" | "unavailable", url: URL, idle: number): SandkeepError {
  return new SandkeepError(code, `Cannot reach "${url.host}": it sent nothing for ${idle / 1000} s`);
}

function tooSlow(url: URL, window: number): SandkeepError {
  return new SandkeepError(
    "timeout",
    `Cannot continue with "${url.host}": it sent almost nothing for ${window / 1000} s`,
  );
}

function failure(url: URL, cause: unknown, signal: AbortSignal | undefined): SandkeepError {
  if (cause instanceof SandkeepError) return cause;
  if (signal?.aborted && signal.reason instanceof SandkeepError) return signal.reason;
  return new SandkeepError("unavailable", `Cannot reach "${url.host}": ${reasonOf(cause)}`, { cause });
}

/** in our words where OpenSSL's and Node's say what happened in their code, or advise what has no effect here */
function reasonOf(cause: unknown): string {
  const [code = "", message] = [codeOf(cause), messageOf(cause)];
  if (["ENOTFOUND", "EAI_AGAIN"].includes(code)) return "this host finds no address for it";
  if (/wrong version number|packet length too long/i.test(message))
    return "it does not answer with TLS (SANDKEEP_REGISTRY_HTTP lists registries without it)";
  if (/SELF_SIGNED|^UNABLE_TO_/.test(code))
    return `its certificate is not trusted: ${code} (SANDKEEP_EGRESS_CA names a file with further certificates)`;
  return message;
}
