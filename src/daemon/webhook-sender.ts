/**
 * Sends a message to a webhook: one POST, signed as Standard Webhooks describes it. The receiver is not trusted, and its
 * URL comes from a caller: addresses that are not public are refused unless the operator allows them, plain HTTP goes to
 * such allowed addresses only, no redirect is followed, and little of an answer is read.
 */

import { createHmac } from "node:crypto";
import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { isIP } from "node:net";
import { codeOf } from "../base/error-code.ts";
import { guardedLookup } from "../base/guarded-lookup.ts";
import { limitInformational } from "../base/informational-answers.ts";
import { messageOf, SandkeepError } from "../core/model/errors.ts";
import { bytesOf, cidrOf, contains } from "../core/network/cidr.ts";
import { isPublic } from "../core/network/special-ranges.ts";
import type { WebhookMessage, WebhookSender } from "../core/ports/webhooks.ts";

export interface HttpWebhookSenderOptions {
  /** ranges of addresses that are not public and may be reached */
  allow: readonly string[];
  /** certificates to trust; default those that Node knows */
  roots?: () => string[];
  now: () => number;
  /** most ms for an attempt */
  timeout?: number;
}

const usualTimeout = 15_000;
const longestAnswer = 64 << 10;
const hint = "SANDKEEP_WEBHOOK_ALLOW lists ranges that webhooks may reach";

export class HttpWebhookSender implements WebhookSender {
  readonly #options: HttpWebhookSenderOptions;

  constructor(options: HttpWebhookSenderOptions) {
    this.#options = options;
  }

  check(text: string): void {
    this.#urlOf(text);
  }

  async send({ url: text, secret, id, body, signal }: WebhookMessage): Promise<{ status: number }> {
    const url = this.#urlOf(text);
    const { now, roots, timeout = usualTimeout } = this.#options;
    const timestamp = String(Math.floor(now() / 1000));
    const isSecure = url.protocol === "https:";
    const ca = isSecure ? (roots?.() ?? []) : [];
    const ends = AbortSignal.any([signal, AbortSignal.timeout(timeout)]);
    return new Promise((resolve, reject) => {
      const sent = (isSecure ? secureRequest : plainRequest)(url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
          "user-agent": "sandkeep",
          "webhook-id": id,
          "webhook-timestamp": timestamp,
          "webhook-signature": signatureOf(secret, id, timestamp, body),
        },
        lookup: guardedLookup((host, address) => this.#refusal(url, host, address)),
        // A connection of its own: one that is kept may lead to an address that this request must not reach.
        agent: false,
        signal: ends,
        ...(ca.length > 0 && { ca }),
      });
      limitInformational(sent);
      sent.once("error", (cause) => reject(failure(url, cause, ends.aborted && !signal.aborted ? timeout : undefined)));
      sent.once("response", (response) => {
        // Later errors are errors of the answer's body, which does not matter.
        sent.on("error", () => undefined);
        response.on("error", () => undefined);
        let length = 0;
        const done = () => {
          response.destroy();
          resolve({ status: response.statusCode ?? 0 });
        };
        response.on("data", (chunk: Buffer) => {
          length += chunk.length;
          if (length > longestAnswer) done();
        });
        response.once("end", done);
        response.once("close", done);
      });
      sent.end(body);
    });
  }

  #urlOf(text: string): URL {
    const url = URL.parse(text);
    if (!url || (url.protocol !== "https:" && url.protocol !== "http:")) {
      throw new SandkeepError("invalid", "Invalid request: `url` should be an http or https address.");
    }
    if (url.username !== "" || url.password !== "") {
      throw new SandkeepError("invalid", "Invalid request: `url` should NOT contain a user or a password.");
    }
    const host = url.hostname.replace(/^\[|\]$/g, "");
    // A host that is an address is connected to without a lookup.
    const refusal = isIP(host) ? this.#refusal(url, url.host, host) : undefined;
    if (refusal) throw refusal;
    return url;
  }

  #refusal(url: URL, host: string, address: string): SandkeepError | undefined {
    const bytes = bytesOf(address);
    if (bytes && this.#options.allow.some((range) => contains(cidrOf(range), bytes))) return undefined;
    if (!isPublic(address)) {
      return new SandkeepError("forbidden", `Cannot reach "${host}": ${address} is not a public address (${hint})`);
    }
    if (url.protocol === "https:") return undefined;
    return new SandkeepError(
      "forbidden",
      `Cannot reach "${host}": webhooks on the internet need https (${hint} without)`,
    );
  }
}

/** `v1,` and the HMAC in base64, as Standard Webhooks describes it */
export function signatureOf(secret: string, id: string, timestamp: string, body: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}

function failure(url: URL, cause: Error, timeout: number | undefined): SandkeepError {
  if (cause instanceof SandkeepError) return cause;
  if (timeout !== undefined) {
    return new SandkeepError("timeout", `Cannot reach "${url.host}": no answer within ${timeout / 1000} s`);
  }
  const isUnknown = ["ENOTFOUND", "EAI_AGAIN"].includes(codeOf(cause) ?? "");
  const why = isUnknown ? "this host finds no address for it" : messageOf(cause);
  return new SandkeepError("unavailable", `Cannot reach "${url.host}": ${why}`, { cause });
}
