/** When a key is deleted or expires, everything that it opened ends: streams, terminals and the tokens for them. */

import { once } from "node:events";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { raw } from "../clients.ts";

const daemon = daemonOfFile();

/** how long it took to open everything the last time, in ms */
let opening = 1000;

test.each(["deleted", "expired"])("what a key has opened ends when the key is %s", async (how) => {
  const made = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: `of-${how}` } });
  const session: string = made.json.session.id;
  const body = { command: "sh", args: ["-c", "while echo alive; do sleep 0.1; done"] };
  const command = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session}/cmd`, { body });

  const begun = Date.now();
  const life = how === "expired" ? { expiresAt: begun + 4000 + 4 * opening } : {};
  const { json } = await raw(daemon(), "POST", "/sandkeep/v1/keys", { body: { name: how, ...life } });
  const { secret, key } = { secret: json.secret as string, key: json.key as { id: string } };
  const events = await stream(secret, "/sandkeep/v1/events?follow=true");
  const logs = await stream(secret, `/v2/sandboxes/sessions/${session}/cmd/${command.json.command.id}/logs`);
  const pty = await raw(daemon(), "POST", `/v1/vms/${session}/pty/sessions`, { key: secret, body: {} });
  const terminal = new WebSocket(pty.json.url);
  await once(terminal, "open");
  const issued = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session}/interactive`, {
    key: secret,
    body: {},
  });
  const closed = once(terminal, "close");
  opening = Date.now() - begun;

  if (how === "deleted") await raw(daemon(), "DELETE", `/sandkeep/v1/keys/${key.id}`);
  expect(await closed).toEqual([1008, Buffer.from("the key that opened this terminal is no longer valid")]);
  await eventually("the streams end", () => events.isOver && logs.isOver);
  for (const url of [pty.json.url, `${issued.json.url}?token=${issued.json.token}`]) {
    const again = new WebSocket(url);
    again.on("error", () => undefined);
    expect((await once(again, "close"))[0]).toBe(1008);
  }
  expect((await raw(daemon(), "GET", "/v2/sandboxes", { key: secret })).status).toBe(401);
  expect((await raw(daemon(), "DELETE", `/v2/sandboxes/of-${how}`)).status).toBe(200);
});

/** an answer that continues until it is cut off */
async function stream(secret: string, path: string): Promise<{ isOver: boolean }> {
  const answer = await fetch(new URL(path, daemon().url), { headers: { authorization: `Bearer ${secret}` } });
  expect(answer.status).toBe(200);
  const state = { isOver: false };
  void (async () => {
    try {
      for await (const _ of answer.body ?? []);
    } catch {
      // cut off
    }
    state.isOver = true;
  })();
  return state;
}
