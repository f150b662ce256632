/** What the first bytes of a connection are taken for. */

import { expect, test } from "vitest";
import { openingIn } from "./opening.ts";

test.each<[string, object | number]>([
  [
    "GET /a?b=c HTTP/1.1\r\nHost: Api.test:80\r\n\r\nbody",
    { kind: "http", method: "GET", path: "/a", host: "Api.test:80" },
  ],
  ["GET / HTTP/1.0\r\n\r\n", { kind: "http", method: "GET", path: "/" }],
  [
    "POST http://a.test/x HTTP/1.1\nhost:a.test\n\n",
    { kind: "http", method: "POST", path: "http://a.test/x", host: "a.test" },
  ],
  ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", { kind: "http", method: "PRI", path: "*" }],
  [
    "\r\n\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
    { kind: "http", method: "GET", path: "/", host: "a.test", hosts: ["a.test"] },
  ],
  ["\r\n", 3],
  [
    "GET http://me:pass@a.test:80/x HTTP/1.1\r\nHost: b.test\r\nhost : c.test\r\n\r\n",
    { kind: "http", host: "b.test", hosts: ["b.test", "c.test", "a.test:80"] },
  ],
  ["CONNECT a.test:443 HTTP/1.1\r\n\r\n", { kind: "http", hosts: ["a.test:443"] }],
  ["GET / HTTP/1.1\r\nHost: a", 24],
  ["GE", 3],
  ["EHLO me\r\n", { kind: "other" }],
  ["SSH-2.0-OpenSSH\r\n", { kind: "other", isSsh: true }],
  ["SSH-2.0-Open", 13],
  ["SSH-2.0-x / HTTP/1.1\r\nHost: a.test\r\n\r\n", { kind: "other", isSsh: false }],
  [`SSH-2.0-${"x".repeat(300)}`, { kind: "other", isSsh: false }],
  ["\0\0\0\x08\x04", 8],
  ["\0\0\0\x09\0\x03\0\0\0", { kind: "other" }],
  ["\x16\x03", 5],
  ["\x16\x02\0", { kind: "other" }],
  ["\x80\x2e\x01", { kind: "other" }],
])("%j", (text, expected) => {
  const opening = openingIn(Buffer.from(text, "latin1"), false);
  if (typeof expected === "number") expect(opening).toBe(expected);
  else expect(opening).toMatchObject(expected);
});

test("after PostgreSQL's question there is TLS or nothing", () => {
  expect(openingIn(Buffer.from("GET / HTTP/1.1\r\n\r\n"), true)).toMatchObject({ kind: "other" });
});
