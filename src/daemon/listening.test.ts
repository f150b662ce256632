/** Addresses that cannot be listened on, as sentences with the settings that name them, and how a server is closed. */

import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { closeServer, requireFree, withUpgraded } from "./listening.ts";

test("a free port is left free, and one that is taken is a sentence with what to set", async () => {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  await expect(requireFree({ host: "127.0.0.1", port })).rejects.toThrow(
    `Cannot listen on 127.0.0.1:${port}: another program uses this port\nhint: --port or SANDKEEP_PORT names another one; 0 takes any that is free`,
  );
  server.close();
  await once(server, "close");
  await requireFree({ host: "127.0.0.1", port });
  await once(server.listen(port, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
});

test("an address that is not this host's names the settings", async () => {
  await expect(requireFree({ host: "192.0.2.1", port: 0 })).rejects.toThrow(
    /^Cannot listen on 192\.0\.2\.1:0: .*EADDRNOTAVAIL.*\nhint: --host or SANDKEEP_HOST/,
  );
});

test("a server that is closed does not wait for the client of an upgraded connection", async () => {
  const server = createHttpServer();
  server.on("upgrade", (_request, socket) => {
    socket.on("error", () => undefined);
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
  });
  const closable = withUpgraded(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect(port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  client.write("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
  await once(client, "data");
  const ended = once(client, "close");
  await closeServer(closable, Promise.resolve());
  await ended;
});
