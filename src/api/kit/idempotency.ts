/**
 * Requests that may be sent twice: with an `Idempotency-Key` a repeat gets the first answer. The key counts within one
 * team and one operation; with another body it is refused, as then it is not a repeat. A request that failed is
 * forgotten: nothing happened, and it may be tried again.
 */

import { createHash } from "node:crypto";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Store } from "../../core/ports/store.ts";

/** what is remembered of requests; the store keeps it over a restart */
export interface Idempotency {
  /** "new" when nobody used the key before, otherwise the answer that was given, or "running" while there is none */
  begin(key: string): Promise<"new" | "running" | Answer>;
  /** without an answer the key may be used again */
  end(key: string, answer: Answer | undefined): Promise<void>;
}

export interface Answer {
  status: number;
  body: string;
}

export function storedIdempotency(
  store: Pick<Store, "beginIdempotent" | "endIdempotent">,
  clock: () => number,
): Idempotency {
  return {
    begin: (key) => store.beginIdempotent(key, clock()),
    end: (key, answer) => store.endIdempotent(key, answer),
  };
}

export interface Repeatable {
  /** the header's value; without one the request is simply done */
  key: string | undefined;
  /** whose and which: a key means something else in another team or operation */
  scope: string;
  /** what was asked; a repeat asks the same */
  request: string;
  /** longest that a repeat waits for the first, in ms */
  patience?: number;
}

/** does the work, or returns what it returned the first time, which must be plain JSON */
export async function once<T>(idempotency: Idempotency, it: Repeatable, work: () => Promise<T>): Promise<T> {
  if (it.key === undefined) return work();
  if (!/^[\x21-\x7e]{1,255}$/.test(it.key)) {
    throw new SandkeepError(
      "invalid",
      "Invalid request: `Idempotency-Key` should be 1 to 255 visible ASCII characters.",
    );
  }
  const key = digest(`${it.scope}\n${it.key}`);
  const request = digest(it.request);
  const begun = await begin(idempotency, key, it.patience ?? 30_000);
  if (begun !== "new") return repeated(begun, request);
  let answer: Answer | undefined;
  try {
    const value = await work();
    answer = { status: 200, body: JSON.stringify({ request, value }) };
    return value;
  } finally {
    await idempotency.end(key, answer);
  }
}

const pollEvery = 50;

/** while the first is under way its end is waited for */
async function begin(idempotency: Idempotency, key: string, patience: number): Promise<"new" | Answer> {
  for (let waited = 0; ; waited += pollEvery) {
    const begun = await idempotency.begin(key);
    if (begun !== "running") return begun;
    if (waited >= patience) {
      throw new SandkeepError(
        "conflict",
        "Cannot repeat the request: the first with this Idempotency-Key is under way",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, pollEvery));
  }
}

function repeated<T>({ body }: Answer, request: string): T {
  // Our own words, written by once().
  const first = JSON.parse(body) as { request: string; value: T };
  if (first.request === request) return first.value;
  throw new SandkeepError("invalid", "Invalid request: this `Idempotency-Key` was used with another body.");
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
