/** Answers that begin before their content is complete: streams of lines, and JSON that takes long to compute. */

import { asciiJson, liveBody } from "./http.ts";

export interface Live {
  /** what the body says about an error: the status has been sent by then */
  failure: (error: unknown) => unknown;
  /** longest silence, in ms */
  patience: number;
  /** aborted when the daemon is stopping: streams of lines then end with `failure` */
  ending?: AbortSignal | undefined;
}

/** the content type has no charset, since clients do not recognize it with one */
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

/** a stream of server-sent events, each with a name and the id that a client sends to continue after it */
export function serverSentEvents<T extends object>(
  events: (signal: AbortSignal) => AsyncIterable<T>,
  label: (event: T) => { id: string; event: string },
  { failure, patience, ending }: Live,
): Response {
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    const either = ending ? AbortSignal.any([signal, ending]) : signal;
    // Sends the headers at once, so that the client knows that it is connected.
    yield ":\n\n";
    try {
      for await (const each of events(either)) {
        const { id, event } = label(each);
        yield `id: ${id}\nevent: ${event}\ndata: ${asciiJson(each)}\n\n`;
      }
      either.throwIfAborted();
    } catch (error) {
      if (!signal.aborted) yield `event: error\ndata: ${asciiJson(failure(error))}\n\n`;
    }
  }
  return new Response(liveBody({ pieces, filler: ":\n\n", patience }), {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}

/**
 * Sends the headers at once and then blanks, which JSON allows in front of a value: clients that wait for headers give
 * up after five minutes.
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
