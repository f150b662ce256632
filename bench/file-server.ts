/** A Node server that only writes the body of a request to a file, and sends that file: the reference for transfers. */

import { createReadStream, createWriteStream } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import type { Undo } from "../test/harness/harness.ts";

/** its address; a GET reads the file, and any other request replaces it */
export async function plainServer(undo: Undo, file: string): Promise<string> {
  const server = createServer(async (request, response) => {
    if (request.method === "GET") {
      await pipeline(createReadStream(file, { highWaterMark: 256 << 10 }), response);
    } else {
      await pipeline(request, createWriteStream(file));
      response.end("done");
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.defer(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/file`; // a TCP server has one
}
