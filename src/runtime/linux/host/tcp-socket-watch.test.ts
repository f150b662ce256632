/** What /proc/net/sockstat says of the sockets of the whole host. */

import { expect, test } from "vitest";
import { parseTcpSockets } from "./tcp-socket-watch.ts";

test("reads the sockets and the orphans of the whole host", () => {
  const text = "sockets: used 91\nTCP: inuse 4 orphan 7 tw 38 alloc 30 mem 125\nUDP: inuse 0 mem 3\n";
  expect(parseTcpSockets(text)).toEqual({ sockets: 30, orphans: 7 });
  expect(parseTcpSockets("")).toEqual({ sockets: 0, orphans: 0 });
});
