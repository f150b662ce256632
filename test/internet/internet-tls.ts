/** The certificate authority of test/internet/internet.ts, which the host trusts, and its servers that speak TLS. */

import { createServer as createWeb } from "node:https";
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTls, TLSSocket } from "node:tls";
import { certificateOf, deriveAuthority, openAuthority } from "../../src/egress/intercept/authority.ts";

export const internetSpec = deriveAuthority(Buffer.alloc(32, "internet"), "internet");

/** the certificate that programs and the host have to trust */
export const internetCertificate = certificateOf(internetSpec);

/** a page (443), an echo (7443), and an echo behind PostgreSQL's request for TLS (5432), each for any name */
export function tlsServers(): { server: Server; port: number }[] {
  const authority = openAuthority(internetSpec);
  const options = {
    SNICallback: (
      name: string,
      answer: (error: Error | null, context?: ReturnType<typeof authority.leafFor>) => void,
    ) => answer(null, authority.leafFor(name)),
  };
  const web = createWeb(options, (request, response) => {
    const { socket, method, url, headers } = request;
    const sni = socket instanceof TLSSocket ? socket.servername : false;
    response.end(JSON.stringify({ sni, host: headers.host, method, url, headers, address: socket.localAddress }));
  });
  const echo = createTls(options, (socket) => socket.on("error", () => socket.destroy()).pipe(socket));
  const postgres = createServer((socket: Socket) => {
    socket.once("data", () => {
      socket.write("S");
      const secure = new TLSSocket(socket, { isServer: true, ...options });
      secure.on("error", () => secure.destroy()).pipe(secure);
    });
  });
  for (const server of [web, echo]) server.on("tlsClientError", () => {});
  return [
    { server: web, port: 443 },
    { server: echo, port: 7443 },
    { server: postgres, port: 5432 },
  ];
}
