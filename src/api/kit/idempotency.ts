/**
 * Idempotent requests: a repeat with the same `Idempotency-Key` gets the first answer. A key is valid within one team
 * and one operation. A key with a different body is refused, because the request is then not a repeat. A failed request
 * is forgotten and may be tried again.
 *
 * Answers are on the host's disk for a day, and no quota counts them. So an answer of more than 256 KiB is not kept, and a
 * team gets 1 GiB of answers a day.
 */

import { createHash } from "node:crypto";
import type { Seal } from "../../core/context.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Store } from "../../core/ports/store.ts";
import { AnswerRoom } from "./answer-room.ts";

/** keys and answers of earlier requests; the store keeps them across restarts */
export interface Idempotency {
  /** "new" for an unused key, "running" while the first request has no answer yet, otherwise that answer */
  begin(key: string, team: string): Promise<"new" | "running" | Answer>;
  /** stores the answer; without one the key may be used again */
  end(key: string, answer: Answer | undefined, team: string): Promise<void>;
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
  const room = new AnswerRoom(clock);
  return {
    async begin(key, team) {
      const begun = await store.beginIdempotent(key, clock());
      if (begun === "new" && room.isFull(team)) {
        await store.endIdempotent(key, undefined);
        throw noRoom;
      }
      if (typeof begun === "string" || !seal.isSealed(begun.body)) return begun;
      return { ...begun, body: seal.open(begun.body) };
    },
    async end(key, answer, team) {
      const sealed = answer && { ...answer, body: seal.seal(answer.body) };
      if (sealed) room.take(team, key.length + sealed.body.length);
      await store.endIdempotent(key, sealed);
    },
  };
}

const noRoom = new SandkeepError(
  "limit",
  "Cannot take an `Idempotency-Key`: the answers that the team got with one in the last day fill 1 GiB; send the request without it",
  { retryAfter: 3600 },
);

export interface Repeatable {
  /** the header's value; without one the request runs each time */
  key: string | undefined;
  /** whose answer it is */
  team: string;
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
  const begun = await begin(idempotency, key, it);
  if (begun !== "new") return repeated(begun, request);
  let answer: Answer | undefined;
  try {
    const value = await work();
    const body = JSON.stringify({ request, value });
    answer = { status: 200, body: body.length > longestAnswer ? JSON.stringify({ request, isTooLong: true }) : body };
    return value;
  } finally {
    await idempotency.end(key, answer, it.team);
  }
}

const longestAnswer = 256 << 10;
/** ms between two looks at the first: a tenth of the time so far, because a thousand may wait */
const pollEvery = (waited: number) => Math.max(50, waited / 10);

/** waits while the first request is still running */
async function begin(
  idempotency: Idempotency,
  key: string,
  { team, patience = 30_000 }: Repeatable,
): Promise<"new" | Answer> {
  for (let waited = 0; ; waited += pollEvery(waited)) {
    const begun = await idempotency.begin(key, team);
    if (begun !== "running") return begun;
    if (waited >= patience) {
      throw new SandkeepError(
        "conflict",
        "Cannot repeat the request: the first with this Idempotency-Key is under way",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, pollEvery(waited)));
  }
}

function repeated<T>({ body }: Answer, request: string): T {
  // once() wrote this text.
  const first = JSON.parse(body) as { request: string; value: T; isTooLong?: boolean };
  if (first.isTooLong && first.request === request) {
    throw new SandkeepError(
      "conflict",
      "Cannot repeat the answer: it was too long to keep; the first request was served",
    );
  }
  if (first.request === request) return first.value;
  throw new SandkeepError("invalid", "Invalid request: this `Idempotency-Key` was used with another body.");
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
