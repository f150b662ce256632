/** The tape of the story's sandbox: two commands, of which one was killed. */

import { expect } from "vitest";
import type { DocumentClient, Received, Sent } from "./document.ts";

type Call = (id: string, sent?: Sent) => Promise<Received>;
type Bucket = { commands: { started: number; failed: number } };

export async function tapeSoFar(api: DocumentClient, call: Call, things: Record<string, string>): Promise<void> {
  const tape = (await call("getTape", { query: { buckets: 20 } })).json;
  const { createdAt, session } = (await call("getSandbox")).json;
  expect(tape).toMatchObject({ from: createdAt, sessions: [{ id: session.id, state: "running", endedAt: null }] });
  const buckets: Bucket[] = tape.buckets;
  expect(buckets.length).toBeLessThanOrEqual(20);
  const sum = (of: keyof Bucket["commands"]) => buckets.reduce((all, { commands }) => all + commands[of], 0);
  expect([sum("started"), sum("failed")]).toEqual([2, 1]);
  expect(tape.truncated).toEqual({ sessions: false, snapshots: false, egress: false });
  // The first command, which is there in a list of that time only.
  const [{ startedAt }] = (await call("listCommands", { query: { order: "asc" } })).json.commands;
  for (const [to, count] of [
    [startedAt - 1, 0],
    [startedAt, 1],
  ]) {
    expect((await call("listCommands", { query: { from: 1, to } })).json.commands).toHaveLength(count);
  }
  const earlier = await call("getTape", { query: { from: 1, to: 1000 } });
  expect(earlier.json).toMatchObject({ from: 1, to: 1000, sessions: [], snapshots: [], buckets: [] });
  const backwards = await api.send("getTape", { params: things, query: { from: 1000, to: 1000 } });
  expect([backwards.status, backwards.json.error.message]).toEqual([400, expect.stringContaining("after `from`")]);
}
