/**
 * An MCP transport over standard input and output that answers every request before it ends. Piped input ends with the
 * last request, and the SDK's own transport would then drop the answers.
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
  // Ends when no answer is left to send. One turn after the last chunk, the reader has read everything.
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
    // A subscription is answered only when the connection ends.
    else if ("id" in message && "method" in message && message.method !== "subscriptions/listen") asked.add(message.id);
    transport.onmessage?.(message);
  };
  return transport;
}
