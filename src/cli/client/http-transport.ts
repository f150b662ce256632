/** Requests to the daemon over node:http, for the typed client. Connections are used again. */

import type { Agent, IncomingMessage, RequestOptions } from "node:http";
import type { Answer, SentRequest, Transport } from "../../client/client.ts";
import { textOf } from "./node-transport.ts";

export function httpTransport(): Transport<Answer> {
  const agents = new Map<string, Agent>();
  return (address, request) => {
    const { request: ask, Agent: agentOf } = moduleOf(address.protocol);
    const agent = agents.get(address.protocol) ?? new agentOf({ keepAlive: true });
    agents.set(address.protocol, agent);
    const { method, headers, body, signal } = request;
    const options: RequestOptions = {
      method,
      agent,
      headers: { ...headers, ...lengthOf(body) },
      ...(signal && { signal }),
    };
    return new Promise((resolve, reject) => {
      const outgoing = ask(address, options, (incoming) => resolve(answerOf(incoming)));
      // Every one has a listener, also those after the answer: reading the answer fails then, too.
      outgoing.on("error", reject);
      if (body === undefined || typeof body === "string") outgoing.end(body);
      else void send(body as unknown as AsyncIterable<Uint8Array>, outgoing).catch((error) => outgoing.destroy(error));
    });
  };
}

/** the module itself: as an import, the values of all its getters are computed */
function moduleOf(protocol: string): typeof import("node:http") {
  // node:https has the same functions.
  if (protocol === "https:") return process.getBuiltinModule("node:https") as unknown as typeof import("node:http");
  return process.getBuiltinModule("node:http");
}

function lengthOf(body: SentRequest["body"]): Record<string, string> {
  return typeof body === "string" ? { "content-length": String(Buffer.byteLength(body)) } : {};
}

async function send(body: AsyncIterable<Uint8Array>, outgoing: NodeJS.WritableStream): Promise<void> {
  for await (const chunk of body) {
    if (!outgoing.write(chunk)) await new Promise<void>((resolve) => drained(outgoing, resolve));
  }
  outgoing.end();
}

/** also after the end of the connection, which the answer reports */
function drained(outgoing: NodeJS.WritableStream, resolve: () => void): void {
  const done = () => {
    outgoing.off("drain", done).off("close", done);
    resolve();
  };
  outgoing.on("drain", done).on("close", done);
}

function answerOf(incoming: IncomingMessage): Answer {
  const { statusCode: status = 0 } = incoming;
  return {
    ok: status >= 200 && status < 300,
    status,
    headers: { get: (name) => incoming.headers[name.toLowerCase()]?.toString() ?? null },
    body: incoming,
    text: () => textOf(incoming),
  };
}
