/**
 * A server before the daemon, for the dashboard's benchmark: it passes everything on, but the stream of events is its own.
 * So a page gets as many changes of state as we like, while its lists and requests are real.
 */

import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import type { Undo } from "../../test/harness/harness.ts";

export interface Front {
  url: string;
  /** where the daemon is, once it runs */
  daemon: string;
  /** sends an event to every page that has a stream open */
  send(event: Record<string, unknown>): void;
  /** how many streams are open */
  streams(): number;
}

/** of the cursors of its own events */
const run = "bench";

export async function startFront(undo: Undo): Promise<Front> {
  const streams = new Set<ServerResponse>();
  const sockets = new Set<Socket>();
  let sent = 0;
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://front");
    if (pathname !== "/sandkeep/v1/events") return pass(front.daemon, request, response);
    const after = searchParams.get("after") ?? "";
    if (request.headers.accept === "text/event-stream") {
      response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
      streams.add(response);
      response.on("close", () => streams.delete(response));
    } else if (after.startsWith(run)) {
      response.setHeader("content-type", "application/json").end(JSON.stringify({ events: [], next: after }));
    } else pass(front.daemon, request, response);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const { port, hostname } = new URL(front.daemon);
    const upstream = connect(Number(port), hostname, () => {
      const lines = request.rawHeaders.flatMap((each, at) =>
        at % 2 === 0 ? [`${each}: ${request.rawHeaders[at + 1]}`] : [],
      );
      upstream.write(`${[`${request.method} ${request.url} HTTP/1.1`, ...lines].join("\r\n")}\r\n\r\n`);
      upstream.write(head);
      socket.pipe(upstream).pipe(socket);
    });
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const)
      one.on("error", () => other.destroy());
    upstream.setNoDelay(true);
    socket.setNoDelay(true);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.defer(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  const front: Front = {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
    daemon: "",
    send(event) {
      const text = `data: ${JSON.stringify({ ...event, cursor: `${run}-${++sent}`, at: Date.now() })}\n\n`;
      for (const stream of streams) stream.write(text);
    },
    streams: () => streams.size,
  };
  return front;
}

function pass(daemon: string, request: IncomingMessage, response: ServerResponse): void {
  const { port, hostname } = new URL(daemon);
  const { method, url: path, headers } = request;
  const upstream = httpRequest({ hostname, port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  upstream.on("error", () => response.destroy());
  response.on("close", () => upstream.destroy());
  request.pipe(upstream);
}
