/** An ingress in front of a program that takes the place of one in a sandbox, for tests. */

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from "node:net";
import { onTestFinished } from "vitest";
import { createIngress, type IngressOptions } from "../../../src/ingress/ingress.ts";

export const webHost = "sb-web.localhost";

export interface IngressFixture extends Partial<IngressOptions> {
  /** the program in the sandbox */
  app?: (request: IncomingMessage, response: ServerResponse) => unknown;
  onApp?: (app: Server) => unknown;
  /** a program that does not use HTTP */
  tcp?: (socket: Socket) => void;
}

interface Question {
  method?: string;
  path?: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

interface Answer {
  status: number | undefined;
  reason: string | undefined;
  headers: IncomingMessage["headers"];
  bytes: Buffer;
  body: string;
}

/** an ingress in front of a program, and a function that sends requests to it */
export async function asking(options: IngressFixture): Promise<(question?: Question) => Promise<Answer>> {
  const { port } = await serving(options);
  return ({ method, path, headers, body } = {}) => {
    const asked = request({ port, method, path, headers: { host: webHost, ...headers } });
    asked.end(body);
    return read(asked);
  };
}

export async function serving({ app = () => undefined, onApp, tcp, ...options }: IngressFixture) {
  const inside = tcp ? createTcpServer(tcp) : createServer((req, res) => void app(req, res));
  if (onApp && !tcp) onApp(inside as Server);
  const target = await listening(inside);
  const routes = { connect: async () => ({ open: async () => connect(target, "127.0.0.1") }) };
  const ingress = createIngress({ routes, domain: () => "localhost", ...options });
  const server = createServer({ shouldUpgradeCallback: ingress.shouldUpgrade }, ingress.handle);
  server.on("upgrade", ingress.upgrade);
  return { ingress, port: await listening(server) };
}

export async function listening(server: Server | TcpServer): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

export async function response(asked: ReturnType<typeof request>): Promise<IncomingMessage> {
  const [answer] = await once(asked, "response");
  asked.on("error", () => undefined);
  return answer;
}

export async function read(asked: ReturnType<typeof request>): Promise<Answer> {
  const answer = await response(asked);
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const { statusCode: status, statusMessage: reason, headers } = answer;
  return { status, reason, headers, bytes, body: bytes.length > 1 << 20 ? "" : bytes.toString() };
}

export function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
