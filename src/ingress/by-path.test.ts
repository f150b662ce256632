/** Ports by path: which requests they are, and what an answer may not reach. */

import { expect, test } from "vitest";
import { asking } from "../../test/harness/network/ingress.ts";
import { confined, portPath } from "./by-path.ts";

test.each([
  ["/port/sb-1", { subdomain: "sb-1", prefix: "/port/sb-1", url: "/" }],
  ["/port/sb-1/a?b", { subdomain: "sb-1", prefix: "/port/sb-1", url: "/a?b" }],
  ["/port/sb-1?b", { subdomain: "sb-1", prefix: "/port/sb-1", url: "/?b" }],
  ["/port/sb-1//x", { subdomain: "sb-1", prefix: "/port/sb-1", url: "//x" }],
  ["/port/", undefined],
  ["/port/SB", undefined],
  ["/port/-a/", undefined],
  ["/port/a.b/", undefined],
  ["/ports/sb-1/", undefined],
  ["/v2/port/sb-1/", undefined],
  [undefined, undefined],
])("%s is %j", (url, path) => {
  expect(portPath(url)).toEqual(path);
});

test("a request by path reaches the program at its own path, and the answer stays below the prefix", async () => {
  const ask = await asking({
    app: (req, res) => {
      const cookies = ["a=1", "b=2; Path=/x; HttpOnly", "c=3; Domain=localhost; path=/"];
      res.writeHead(302, { location: "/login", "set-cookie": cookies, "clear-site-data": '"*"', "x-seen": req.url });
      res.end();
    },
  });
  const { status, headers } = await ask({ path: "/port/sb-web/a?b", headers: { host: "127.0.0.1" } });
  expect(status).toBe(302);
  expect(headers).toMatchObject({
    location: "/port/sb-web/login",
    "x-seen": "/a?b",
    "set-cookie": ["a=1; Path=/port/sb-web/", "b=2; HttpOnly; Path=/port/sb-web/x", "c=3; Path=/port/sb-web/"],
    "content-security-policy": expect.stringMatching(/^sandbox (?!.*allow-same-origin)/),
  });
  expect(headers).not.toHaveProperty("clear-site-data");
});

test("an address elsewhere is left as it is, and a policy of the program's own counts besides", () => {
  const headers = ["Location", "//elsewhere/x", "Content-Security-Policy", "default-src 'none'", "X-Own", "1"];
  expect(confined(headers, "/port/sb-1").slice(0, 6)).toEqual(headers);
});
