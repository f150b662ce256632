/** Refusals in the form of the dialect whose clients use a label. */

import { expect, test } from "vitest";
import { asking } from "../../test/harness/network/ingress.ts";

test("a dialect prints the refusals of its own labels, as an object or a text, and other labels keep our form", async () => {
  const ask = await asking({
    tcp: (socket) => void socket.once("data", () => socket.end("no HTTP")),
    connections: 0,
    ports: {
      portOf: () => undefined,
      tokenHeader: "x-token",
      isToken: () => false,
      refused: (label, { code, message }) => {
        if (label === "text-own") return { status: 400, body: message };
        return label.endsWith("-own") ? { status: 429, body: { label, reason: code } } : undefined;
      },
    },
  });
  const own = await ask({ headers: { host: "1-own.localhost" } });
  expect([own.status, JSON.parse(own.body)]).toEqual([429, { label: "1-own", reason: "SANDBOX_BUSY" }]);
  expect(own.headers).toMatchObject({
    "content-type": "application/json; charset=utf-8",
    "x-sandkeep-error": "SANDBOX_BUSY",
  });
  const text = await ask({ headers: { host: "text-own.localhost" } });
  expect([text.status, text.headers["content-type"]]).toEqual([400, "text/plain; charset=utf-8"]);
  expect(text.body).toMatch(/^The sandbox has/);
  const page = await ask({ headers: { host: "1-own.localhost", accept: "text/html" } });
  expect([page.status, page.headers["content-type"]]).toEqual([429, "text/html; charset=utf-8"]);
  expect(page.body).toContain("429 SANDBOX_BUSY");
  expect(await ask()).toMatchObject({ status: 503, body: expect.stringContaining('"error"') });
});

test("a program whose answer is no HTTP is refused in the dialect's form, too", async () => {
  const ask = await asking({
    tcp: (socket) => void socket.once("data", () => socket.end("no HTTP")),
    ports: {
      portOf: () => undefined,
      tokenHeader: "x-token",
      isToken: () => false,
      refused: (label, { status, code }) => ({ status, body: { label, code } }),
    },
  });
  const { status, body } = await ask();
  expect([status, JSON.parse(body)]).toEqual([502, { label: "sb-web", code: "SANDBOX_BAD_ANSWER" }]);
});
