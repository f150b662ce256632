/**
 * A company's proxy for tests, run inside the internet of test/internet/internet.ts: opens tunnels for every client on
 * port 3128, and on 3129 for clients with the password. Prints "ready", then each tunnel that it was asked for, and
 * stays until its stdin ends.
 */

import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { nameRecords } from "./internet-names.ts";

const password = `Basic ${Buffer.from("user:p@ss:word").toString("base64")}`;

await Promise.all([listening(3128, undefined), listening(3129, password)]);
console.log("ready");
process.stdin.on("end", () => process.exit(0)).resume();

function listening(port: number, credentials: string | undefined): Promise<void> {
  const server = createServer((_request, response) => response.writeHead(405).end());
  server.on("connect", (request, socket: Socket) => {
    socket.on("error", () => socket.destroy());
    if (credentials !== undefined && request.headers["proxy-authorization"] !== credentials) {
      console.log(`${port} refused`);
      return void socket.end("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n");
    }
    console.log(`${port} ${request.url}`);
    const { hostname, port: to } = new URL(`tcp://${request.url}`);
    const address = nameRecords[hostname]?.a?.[0] ?? hostname.replace(/^\[|\]$/g, "");
    const onward = connect(Number(to), address, () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      socket.pipe(onward).pipe(socket);
    });
    onward.on("error", () => socket.destroy());
    socket.on("close", () => onward.destroy());
    onward.on("close", () => socket.destroy());
  });
  return new Promise((resolve) => server.listen(port, "::", resolve));
}
