/** A request for another protocol, such as WebSocket: once the server agrees, bytes pass in both directions without inspection. */

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { headOf, offersHttp2, pairs } from "../../base/http-headers.ts";
import { pour, pourBoth } from "../connection/pour.ts";
import type { TimeShare } from "../fairness/turns.ts";
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
import { endToEnd, type Header, valuesOf } from "./headers.ts";
import { sendUpgrade } from "./http1-client.ts";
import { newInterim, tooManyInterim } from "./interim.ts";
import { unsendable } from "./upstream.ts";

/** whether it is one: clients that merely offer HTTP/2 get an ordinary answer, and a body would come unparsed */
export function isUpgrade({ headers }: IncomingMessage): boolean {
  const bodiless = headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0;
  return headers.upgrade !== undefined && !offersHttp2(headers.upgrade) && bodiless;
}

/** `head` is what the program sent after its request */
export function upgrade(context: ConnectionContext, incoming: Incoming, inside: Duplex, head: Buffer): void {
  context.asked();
  inside.on("error", () => inside.destroy());
  // It may last for ever, so it does not count towards the limit of requests.
  void context.share.turn(requestCost).then(() => begin(context, incoming, inside, head));
}

function begin(context: ConnectionContext, incoming: Incoming, inside: Duplex, head: Buffer): void {
  if (inside.destroyed) return;
  const seen = seenOf(incoming);
  inside.once("close", () => context.seen(seen));
  const decision = decide(context, incoming);
  if (decision.rule) seen.rule = decision.rule;
  if ("answer" in decision) {
    answer(decision.answer);
    return;
  }
  const { origin, request } = decision;
  origin
    .connect()
    .then((outside) => {
      if (inside.destroyed) return void outside.destroy();
      inside.once("close", () => outside.destroy());
      const onward = sendUpgrade(outside, request, valuesOf(incoming.headers, "upgrade").join(", "));
      const interim = newInterim(context.share);
      let flooded = false;
      onward.on("information", ({ rawHeaders }) => {
        if (interim.take(pairs(rawHeaders)) || flooded) return;
        flooded = true;
        onward.destroy();
        answer(refusal(502, tooManyInterim(context.host).message));
      });
      onward.once("upgrade", (response, upstream, first) => {
        if (flooded) return;
        inside.write(headOf(response.statusCode ?? 101, response.statusMessage ?? "", upgradeHeaders(response)));
        join(inside, head, upstream, first, seen, context.share);
        seen.status = response.statusCode ?? 101;
      });
      onward.once("response", (response) => {
        if (flooded) return;
        seen.status = response.statusCode ?? 502;
        // Its end is the end of the connection: no parser reads the bytes after this request.
        const headers: Header[] = [...endToEnd(pairs(response.rawHeaders)), ["Connection", "close"]];
        inside.write(headOf(seen.status, response.statusMessage ?? "", headers));
        response.on("error", () => inside.destroy());
        pour(response, inside, context.share);
        response.once("end", () => inside.end());
      });
      onward.on("error", () => void (flooded || inside.destroy()));
      onward.end();
    })
    .catch((error) => answer(refusal(502, unsendable(context.host, error).message)));

  function answer({ status, headers, body, problem }: FixedAnswer): void {
    if (inside.destroyed) return;
    seen.status = status;
    if (problem !== undefined) seen.problem = problem;
    endWith(inside, Buffer.concat([headOf(status, "", [...headers, ["Connection", "close"]]), Buffer.from(body)]));
  }
}

/** how long a program may take to read the final answer, in ms */
const lingering = 2_000;

/** sends a final answer: if the connection were closed at once, unread bytes of the program could destroy it */
export function endWith(socket: Duplex, text: string | Buffer): void {
  socket.end(text);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingering);
  socket.once("close", () => clearTimeout(timer));
}

function join(inside: Duplex, head: Buffer, outside: Duplex, first: Buffer, seen: SeenRequest, share: TimeShare): void {
  if (first.length > 0) inside.write(first);
  if (head.length > 0) outside.write(head);
  seen.sent += head.length;
  seen.received += first.length;
  inside.on("data", (chunk: Buffer) => {
    seen.sent += chunk.length;
  });
  outside.on("data", (chunk: Buffer) => {
    seen.received += chunk.length;
  });
  outside.on("error", () => inside.destroy());
  outside.once("close", () => inside.destroy());
  pourBoth(inside, outside, share);
}

function upgradeHeaders({ rawHeaders, headers }: IncomingMessage): Header[] {
  return [...endToEnd(pairs(rawHeaders)), ["Connection", "Upgrade"], ["Upgrade", headers.upgrade ?? ""]];
}
