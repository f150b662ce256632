/** What /proc/net/tcp says of connections that wait to be accepted. */

import { expect, test } from "vitest";
import { parseUnaccepted } from "./tcp-memory-watch.ts";

test("counts the bytes of connections without an owner, and names the listeners with a queue", () => {
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:C350 01 00000000:00010000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 0 10 -1
   3: 0100007F:1F90 0100007F:C351 08 00000000:00000010 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 0 10 -1
   4: 0100007F:C352 0100007F:1F90 01 00000000:00FFFFFF 00:00000000 00000000     0        0 4713 1 0000000000000000 20 4 0 10 -1
`;
  expect(parseUnaccepted(table)).toEqual({ bytes: 65_552, listeners: ["4711"] });
  expect(parseUnaccepted("")).toEqual({ bytes: 0, listeners: [] });
});
