/**
 * Sends an answer with Node's response. An answer that is complete leaves in one write, with its headers. One that refuses
 * a request is seen by a client that is still sending its body.
 */

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { Answer, type Complete, headOf, isLive } from "../answer.ts";
import { sendLive } from "../live.ts";
import { drained } from "./drained.ts";

/** A request, and what sends its answer. */
export interface Exchange {
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  /** added to the answer's own, with names in lower case */
  headers: Record<string, string>;
}

/** resolves when the answer is sent, or the client is gone */
export async function send(response: Response, exchange: Exchange): Promise<void> {
  const { incoming, outgoing, headers } = exchange;
  try {
    const answer = Answer.from(response);
    answer?.addMissing(headers);
    const head = answer?.head() ?? { ...headers, ...headOf(response.headers) };
    if (response.status >= 400 && !incoming.complete && !incoming.destroyed) {
      const content = answer && !isLive(answer.content) ? answer.content : new Uint8Array(await response.arrayBuffer());
      await sendLast(content, response.status, head, exchange);
    } else if (answer && !isLive(answer.content)) {
      sendComplete(answer.content, response.status, head, outgoing);
    } else if (answer && isLive(answer.content) && incoming.httpVersionMajor === 1) {
      await sendLive(answer.content, head, outgoing);
    } else {
      // Node's response for HTTP/2 does not say whether it waits for its reader, so there a live answer is a web stream.
      await sendStream(response, head, outgoing);
    }
  } catch {
    // The client would wait for the rest of the answer.
    outgoing.destroy();
  }
}

function sendComplete(content: Complete, status: number, head: OutgoingHttpHeaders, outgoing: ServerResponse): void {
  // Answers with these statuses have no body, and no length of one.
  if (status !== 204 && status !== 304) head["content-length"] ??= lengthOf(content);
  outgoing.writeHead(status, head);
  if (content === null) outgoing.end();
  else outgoing.end(content);
}

function lengthOf(content: Complete): number {
  if (content === null) return 0;
  return typeof content === "string" ? Buffer.byteLength(content) : content.length;
}

/**
 * Sends a refusal as the last answer of its connection. The answer goes out at once, but the connection closes only
 * when the client has sent everything. If it closed earlier, the client would see a reset instead of the answer.
 */
async function sendLast(
  content: Complete,
  status: number,
  head: OutgoingHttpHeaders,
  { incoming, outgoing }: Exchange,
): Promise<void> {
  outgoing.writeHead(status, { ...head, connection: "close", "content-length": lengthOf(content) });
  if (content === null) outgoing.flushHeaders();
  else outgoing.write(content);
  await heardOut(incoming);
  outgoing.end();
}

/** writes a body no faster than the client reads it, and cancels it when the client disconnects */
async function sendStream(response: Response, head: OutgoingHttpHeaders, outgoing: ServerResponse): Promise<void> {
  const { body, status } = response;
  outgoing.writeHead(status, head);
  if (!body) {
    outgoing.end();
    return;
  }
  const reader = body.getReader();
  const cancel = () => void reader.cancel().catch(() => undefined);
  outgoing.once("close", cancel);
  // A body that begins at once leaves together with the headers.
  const flush = setImmediate(() => outgoing.flushHeaders());
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      clearImmediate(flush);
      if (outgoing.destroyed) return;
      if (!outgoing.write(read.value)) await drained(outgoing);
    }
    outgoing.end();
  } finally {
    clearImmediate(flush);
    outgoing.off("close", cancel);
  }
}

/** how much a client may still send after its answer, and for how long, before we close the connection */
const patience = { bytes: 256 << 20, ms: 3000 };

/** resolves when the client has sent its whole request, has sent too much, or has taken too long */
export function heardOut(incoming: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    if (incoming.readableEnded || incoming.destroyed) return resolve();
    let left = patience.bytes;
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(done, patience.ms).unref();
    // An earlier reader would go on buffering data, and pause the stream when its buffer is full.
    incoming.removeAllListeners("data");
    // While a "readable" listener exists, Node emits no "data" events.
    incoming.removeAllListeners("readable");
    incoming.on("data", (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) done();
    });
    for (const event of ["end", "close", "error"]) incoming.once(event, done);
    incoming.resume();
  });
}
