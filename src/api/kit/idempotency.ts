/**
 * Idempotent requests: a repeat with the same `Idempotency-Key` gets the first answer. A key is valid within one team
 * and one operation. A key with a different body is refused, because the request is then not a repeat. A failed request
 * is forgotten and may be tried again.
 */

import { createHash } from "node:crypto";
import type { Seal } from "../../core/context.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Store } from "../../core/ports/store.ts";

/** keys and answers of earlier requests; the store keeps them across restarts */
export interface Idempotency {
  /** "new" for an unused key, "running" while the first request has no answer yet, otherwise that answer */
  begin(key: string): Promise<"new" | "running" | Answer>;
  /** stores the answer; without one the key may be used again */
  end(key: string, answer: Answer | undefined): Promise<void>;
}

export interface Answer {
  status: number;
  body: string;
}

/** Answers are sealed, because some have a secret, such as a new key, which nobody may read in the database. */
export function storedIdempotency(
  store: Pick<Store, "beginIdempotent" | "endIdempotent">,
  clock: () => number,
  seal: Seal,
): Idempotency {
  return {
    async begin(key) {
      const begun = await store.beginIdempotent(key, clock());
      if (typeof begun === "string" || !seal.isSealed(begun.body)) return begun;
      return { ...begun, body: seal.open(begun.body) };
    },
    end: (key, answer) => store.endIdempotent(key, answer && { ...answer, body: seal.seal(answer.body) }),
  };
}

export interface Repeatable {
  /** the header's value; without one the request runs each time */
  key: string | undefined;
  /** team and operation, within which the key is unique */
  scope: string;
  /** content of the request, which a repeat must match */
  request: string;
  /** longest that a repeat waits for the first request, in ms */
  patience?: number;
}

/** does the work, or returns the result of the first time; results must be plain JSON */
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

/** waits while the first request is still running */
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
  // once() wrote this text.
  const first = JSON.parse(body) as { request: string; value: T };
  if (first.request === request) return first.value;
  throw new SandkeepError("invalid", "Invalid request: this `Idempotency-Key` was used with another body.");
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
