/**
 * One request of a program and its answer: carries out what was decided about it. Body and answer stream, neither
 * faster than the other side reads them. If one side fails or ends early, so does the other.
 */

import { constants } from "node:http2";
import type { Writable } from "node:stream";
import { messageOf } from "../../core/model/errors.ts";
import { pour } from "../connection/pour.ts";
import type { Answer, Client, Outgoing } from "./client.ts";
import {
  type ConnectionContext,
  decide,
  type FixedAnswer,
  type Incoming,
  refusal,
  requestCost,
  type SeenRequest,
  seenOf,
} from "./decision.ts";
import { endToEnd, type Header, valuesOf, without } from "./headers.ts";
import { newInterim, tooManyInterim } from "./interim.ts";
import { Unreachable, type Upstream, unsendable } from "./upstream.ts";

/** Where the program's answer goes. */
export interface Answering {
  /** whether its head has been sent */
  readonly begun: boolean;
  /** 1xx; hints for a program that does not read what was sent before are left out */
  inform(status: number, headers: Header[]): void;
  /** throws when this head cannot be sent */
  begin(status: number, reason: string, headers: Header[]): Writable;
  end(trailers: Header[]): void;
  /** cuts the answer off, so that the program does not take it for complete; with a code of HTTP/2 */
  cut(code: number): void;
  /** called once: the answer was sent completely, or the program is gone */
  over(listener: () => void): void;
}

/** never throws: the program and `seen` get the result */
export function exchange(context: ConnectionContext, incoming: Incoming, answering: Answering): void {
  context.asked();
  const { share } = context;
  answering.over(share.request(requestCost, () => begin(context, incoming, answering)));
}

function begin(context: ConnectionContext, incoming: Incoming, answering: Answering): void {
  const { share } = context;
  const seen: SeenRequest = seenOf(incoming);
  /** whether the program has got, or is getting, all of its answer */
  let whole = false;
  const decision = decide(context, incoming);
  if (decision.rule) seen.rule = decision.rule;
  incoming.body.on("data", (chunk: Buffer) => {
    seen.sent += chunk.length;
  });
  // Counting must not start the stream before it has a reader.
  incoming.body.pause();
  incoming.body.on("error", () => undefined);
  answering.over(() => context.seen(seen));
  if ("answer" in decision) answerWith(decision.answer);
  else void relay(decision.origin, decision.request);

  function answerWith({ status, headers, body, problem }: FixedAnswer): void {
    if (answering.begun) return;
    seen.status = status;
    if (problem !== undefined) seen.problem = problem;
    try {
      const writable = answering.begin(status, "", headers);
      if (incoming.method !== "HEAD" && body !== "") {
        seen.received = Buffer.byteLength(body);
        writable.write(body);
      }
      answering.end([]);
    } catch (error) {
      cut(messageOf(error), constants.NGHTTP2_INTERNAL_ERROR);
    }
    // A program that writes first and reads later must still get the answer.
    incoming.body.resume();
  }

  async function relay(origin: Upstream, request: Outgoing): Promise<void> {
    let gone = false;
    answering.over(() => {
      gone = true;
    });
    let client: Client;
    try {
      client = await origin.client();
    } catch (error) {
      fail(error);
      return;
    }
    if (gone) return;
    try {
      pass(client, request);
    } catch (error) {
      fail(unsendable(context.host, error));
    }
  }

  function pass(client: Client, request: Outgoing): void {
    const interim = newInterim(share);
    let flooded = false;
    const sending = client.send(request, {
      inform(status, headers) {
        const within = interim.take(headers);
        if (flooded) return;
        if (within) return inform(status, endToEnd(headers));
        flooded = true;
        sending.disconnect();
        fail(tooManyInterim(context.host));
      },
      // It may have come with those that were too many.
      answer: (answer) => void (flooded || passBack(answer, sending.abort)),
      failed: (error, code) => fail(error, code),
    });
    if (!request.hasBody) {
      sending.end([]);
      incoming.body.resume();
    } else {
      let ended = false;
      const end = () => {
        ended = true;
        try {
          sending.end(trailersOf(incoming.trailers(), request.secret));
        } catch {
          sending.abort(constants.NGHTTP2_PROTOCOL_ERROR);
        }
      };
      // An empty body may have ended before it was read.
      if (incoming.body.readableEnded) end();
      else incoming.body.once("end", end);
      incoming.body.once("close", () => {
        if (!ended) sending.abort(constants.NGHTTP2_CANCEL);
      });
      // A server may answer or leave without reading all of it: then the rest is read and dropped.
      const stop = pour(incoming.body, sending.body, share);
      const drain = () => {
        stop();
        incoming.body.resume();
      };
      sending.body.once("close", drain).once("error", drain);
    }
    answering.over(() => {
      if (seen.problem !== undefined || !whole) sending.abort(constants.NGHTTP2_CANCEL);
    });
  }

  /** a change of protocol was not requested, so it is not an interim answer; one that cannot be passed on is left out */
  function inform(status: number, headers: Header[]): void {
    if (status === 101) return;
    try {
      answering.inform(status, headers);
    } catch {
      // It may say the same thing twice, which one version of HTTP allows and another does not.
    }
  }

  function passBack(answer: Answer, abort: (code: number) => void): void {
    seen.status = answer.status;
    let writable: Writable;
    try {
      if (answer.status === 101) throw new Error("it changed the protocol without a request");
      writable = answering.begin(answer.status, answer.reason, endToEnd(answer.headers));
    } catch (error) {
      abort(constants.NGHTTP2_CANCEL);
      fail(new Unreachable(`Cannot pass on the answer of "${context.host}": ${messageOf(error)}`));
      return;
    }
    const { body } = answer;
    const length = lengthOf(incoming.method, answer);
    let ended = false;
    body.on("error", () => undefined);
    body.on("data", (chunk: Buffer) => {
      seen.received += chunk.length;
    });
    body.once("end", () => {
      // Also an orderly close in the middle of a body makes it incomplete.
      if (length !== undefined && length !== seen.received) return;
      ended = true;
      try {
        answering.end(endToEnd(answer.trailers()));
        whole = true;
      } catch {
        cut("what comes after its answer cannot be passed on", constants.NGHTTP2_INTERNAL_ERROR);
      }
    });
    body.once("close", () => {
      if (!ended) cut("the server broke off its answer", answer.code());
    });
    pour(body, writable, share);
  }

  function fail(error: unknown, code?: number): void {
    if (answering.begun) return;
    if (error instanceof Unreachable) answerWith(refusal(502, error.message));
    // What a program would see of the server itself: it left, or cancelled the request.
    else cut(messageOf(error), code ?? constants.NGHTTP2_INTERNAL_ERROR);
  }

  function cut(why: string, code: number): void {
    seen.problem ??= `Cannot pass on what "${context.host}" says: ${why}`;
    answering.cut(code);
  }
}

/** trailers must not replace headers that were sent before the body, nor those that a rule has set */
function trailersOf(trailers: Header[], set: string[]): Header[] {
  return without(endToEnd(trailers), "host", "content-length", "content-type", "content-encoding", ...set);
}

/** bytes that the body of an answer has to have */
function lengthOf(method: string, { status, headers }: Answer): number | undefined {
  if (method === "HEAD" || status === 204 || status === 304) return undefined;
  const [length] = valuesOf(headers, "content-length");
  return length === undefined ? undefined : Number(length);
}
