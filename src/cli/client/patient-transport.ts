/**
 * MCP over standard input and output that answers everything it was asked before it ends: what is piped into it ends
 * with the last question, and the SDK's own transport would drop the answers.
 */

import { Transform } from "node:stream";
import type { Transport } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

export function patientTransport(input: NodeJS.ReadableStream, output: NodeJS.WriteStream): Transport {
  const asked = new Set<unknown>();
  let whenIdle: (() => void) | undefined;
  const settle = (id: unknown) => {
    asked.delete(id);
    if (asked.size === 0) whenIdle?.();
  };
  // Its end comes when nothing is left to answer. Whoever reads it has read all of it one turn after the last of it came.
  const held = new Transform({
    transform: (chunk, _, done) => done(null, chunk),
    flush: (done) =>
      void setImmediate(() => {
        whenIdle = () => done();
        if (asked.size === 0) done();
      }),
  });
  const wire = new StdioServerTransport(input.pipe(held), output);
  const transport: Transport = {
    start: () => wire.start(),
    close: () => wire.close(),
    async send(message) {
      await wire.send(message);
      if ("id" in message && !("method" in message)) settle(message.id);
    },
  };
  wire.onclose = () => transport.onclose?.();
  wire.onerror = (error) => transport.onerror?.(error);
  wire.onmessage = (message) => {
    if ("method" in message && message.method === "notifications/cancelled") settle(message.params?.requestId);
    // A subscription is answered when it ends, which is when the connection does.
    else if ("id" in message && "method" in message && message.method !== "subscriptions/listen") asked.add(message.id);
    transport.onmessage?.(message);
  };
  return transport;
}
