/** Standard input over HTTP that a client sends again after a lost answer: nothing arrives twice or is lost. */

import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { raw } from "../clients.ts";

const daemon = daemonOfFile();

test("input that is sent again after kill -9 of the daemon arrives once", async () => {
  const { session } = (await raw(daemon(), "POST", "/v3/sandboxes", { body: { persistent: false } })).json;
  const commands = `/v2/sandboxes/sessions/${session.id}/cmd`;
  const { command } = (await raw(daemon(), "POST", commands, { body: { command: "cat", attachStdin: true } })).json;
  const send = async (body: object) => {
    const { status, json } = await raw(daemon(), "POST", `${commands}/${command.id}/stdin`, { body });
    return [status, json.bytesWritten ?? json.error.code];
  };
  const first = { data: Buffer.from("first\n").toString("base64"), offset: 0 };
  expect(await send(first)).toEqual([200, 6]);
  await daemon().kill9();
  await daemon().start();
  expect(await send({})).toEqual([200, 6]);
  expect(await send(first)).toEqual([200, 6]);
  expect(await send({ data: Buffer.from("second\n").toString("base64") })).toEqual([200, 13]);
  expect(await send({ data: "eA==", offset: 99 })).toEqual([400, "bad_request"]);
  expect(await send({ offset: 13, close: true })).toEqual([200, 13]);
  const ended = await raw(daemon(), "GET", `${commands}/${command.id}?wait=true`);
  expect(ended.json.command.exitCode).toBe(0);
  expect(await send(first)).toEqual([404, "command_not_found_or_exited"]);
  const { text } = await raw(daemon(), "GET", `${commands}/${command.id}/logs`);
  const lines = text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line).data);
  expect(lines.join("")).toBe("first\nsecond\n");
});
