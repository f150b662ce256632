/** Lines of the log: one for each event, in either format, with what it is about. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { SandkeepError } from "../core/model/errors.ts";
import { createLog, type LogOptions } from "./log.ts";
import { Redaction } from "./redaction.ts";
import { about, currentScope, currentSecrets, inRequest, origin, speaks } from "./request-scope.ts";

function logTo(options: Partial<LogOptions> = {}) {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const usual = { format: "json", level: "info", redaction: new Redaction(), scope: currentScope, write } as const;
  return { lines, log: createLog({ ...usual, ...options }) };
}

test("for people a line is the sentence and what it is about", () => {
  const { lines, log } = logTo({ format: "pretty" });
  log.warn("Cannot do it: no room");
  log.error({ session: "sbx_1", sandbox: "demo", err: new Error("x") }, "Cannot stop it: x");
  const cause = new Error("ENOENT, open '/x'");
  log.error({ err: new SandkeepError("internal", "Cannot stop it: ENOENT", { cause }) }, "Cannot stop it: ENOENT");
  expect(lines).toEqual([
    "sandkeep: Cannot do it: no room\n",
    "sandkeep: Cannot stop it: x   sandbox=demo session=sbx_1\n",
    "sandkeep: Cannot stop it: ENOENT (ENOENT, open '/x')\n",
  ]);
});

test("for programs a line is JSON with a level, a time and, of an error, its kind and place", () => {
  const { lines, log } = logTo();
  const error = new SandkeepError("internal", "Cannot\nstop", { cause: new Error("disk") });
  log.error({ err: Object.assign(error, { connection: { password: "hunter22" } }) }, error.message);
  expect(lines).toHaveLength(1);
  expect(lines[0]?.match(/\n/g)).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toEqual({
    level: "error",
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    msg: "Cannot\nstop",
    err: {
      type: "SandkeepError",
      code: "internal",
      message: "Cannot\nstop",
      stack: expect.stringContaining("log.test.ts"),
      cause: "disk",
    },
  });
});

test("what is less important than the level is not written", () => {
  const { lines, log } = logTo({ level: "warn" });
  log.info("no");
  log.debug("no");
  log.warn("yes");
  expect(lines).toHaveLength(1);
});

test.each([
  ["info", "debug", 0],
  ["debug", "debug", 1],
  ["info", "info", 1],
] as const)("at level %s, requests are written at %s: %i line", async (level, requests, count) => {
  const { lines, log } = logTo({ level });
  let secrets: readonly string[] = [];
  const options = { log, level: requests, now: () => 0, addressOf: () => "192.0.2.1" };
  const server = createServer((request, response) =>
    inRequest(options, request, response, async (_, __, headers) => {
      await new Promise((resolve) => setImmediate(resolve));
      about({ team: "team_1", session: "sbx_1" });
      secrets = currentSecrets();
      speaks("some");
      expect(origin()).toEqual({ wire: "some", address: "192.0.2.1" });
      response.writeHead(201, headers).end("done");
    }),
  );
  server.listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const headers = { authorization: "Bearer of-the-caller", "x-some-access-token": "of-a-sandbox", "x-tokens": "12" };
  const answer = await fetch(`http://127.0.0.1:${port}/v2/x?token=secret`, { method: "POST", headers });
  await answer.text();
  expect(currentSecrets()).toEqual([]);
  expect(secrets.toSorted()).toEqual(["of-a-sandbox", "of-the-caller"]);
  await expect.poll(() => lines.length).toBe(count);
  if (count === 0) return;
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    level: requests,
    request: answer.headers.get("x-request-id"),
    team: "team_1",
    session: "sbx_1",
    method: "POST",
    path: "/v2/x",
    status: 201,
    msg: "POST /v2/x 201 in 0 ms",
  });
});
