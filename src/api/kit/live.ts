/** Answers that begin before all of them is known: lines as they come, and JSON that takes its time. */

import { asciiJson, liveBody } from "./http.ts";

export interface Live {
  /** what is said of an error: the status is on its way by then, so only the body can tell */
  failure: (error: unknown) => unknown;
  /** longest silence, in ms */
  patience: number;
  /** aborted when the daemon is going away: lines end then, with what is said of that */
  ending?: AbortSignal | undefined;
}

/** the content type is exactly this: with a charset the clients take it for something else */
export function ndjson(lines: (signal: AbortSignal) => AsyncIterable<object>, live: Live): Response {
  const { failure, patience, ending } = live;
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    const either = ending ? AbortSignal.any([signal, ending]) : signal;
    try {
      for await (const line of lines(either)) yield `${asciiJson(line)}\n`;
      either.throwIfAborted();
    } catch (error) {
      if (!signal.aborted) yield `${asciiJson(failure(error))}\n`;
    }
  }
  return new Response(liveBody({ pieces, filler: "\n", patience }), {
    headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" },
  });
}

/**
 * The headers go out at once and blanks follow, which JSON allows in front: a client that waits for headers gives up
 * after five minutes.
 */
export function lateJson(value: (signal: AbortSignal) => Promise<unknown>, { failure, patience }: Live): Response {
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    try {
      yield JSON.stringify(await value(signal));
    } catch (error) {
      if (!signal.aborted) yield JSON.stringify(failure(error));
    }
  }
  return new Response(liveBody({ pieces, filler: " ", patience }), {
    headers: { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" },
  });
}
