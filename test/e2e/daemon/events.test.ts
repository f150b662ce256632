/** The events of a project, as its owner gets them over HTTP. */

import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { accessTo, raw, sdks } from "../clients.ts";

const { Sandbox } = sdks["3.5.0"];
const daemon = daemonOfFile();

interface Line {
  type: string;
  cursor: string;
  [field: string]: unknown;
}

test("the steps in the life of a sandbox are published in order, each once it is on record", async () => {
  const follower = await follow("");
  const sandbox = await Sandbox.create({ ...accessTo(daemon()), name: "told" });
  await sandbox.runCommand("true");
  await sandbox.writeFiles([{ path: "a.txt", content: "hello" }]);
  await sandbox.stop();
  await sandbox.delete();
  const lines = await follower.until("sandbox.deleted");
  // The end of a command is on record a moment after its caller has it.
  expect(lines.map(({ type }) => type).filter((type) => type !== "command.ended")).toEqual([
    "sandbox.created",
    "session.pending",
    "session.running",
    "command.started",
    "files.written",
    "session.stopping",
    "snapshot.created",
    "session.stopped",
    "sandbox.deleted",
  ]);
  expect(lines.find(({ type }) => type === "command.ended")).toMatchObject({ exitCode: 0 });
  expect(lines.find(({ type }) => type === "session.stopped")).toMatchObject({ sandbox: "told", cause: "asked" });

  // A client that was away gets the rest, and nothing twice.
  const [, second] = lines;
  const rest = await (await follow(second?.cursor ?? "")).until("sandbox.deleted");
  expect(rest).toEqual(lines.slice(2));
  const page = await raw(daemon(), "GET", `/sandkeep/v1/events?after=${second?.cursor}`);
  expect(JSON.parse(page.text)).toEqual({ events: lines.slice(2), next: lines.at(-1)?.cursor });
});

test("a malformed cursor is refused, and one of another run begins with a gap", async () => {
  const wrong = await raw(daemon(), "GET", "/sandkeep/v1/events?after=nonsense");
  expect(wrong).toMatchObject({ status: 400 });
  const page = await raw(daemon(), "GET", "/sandkeep/v1/events?after=another-7");
  expect(JSON.parse(page.text).events[0]).toMatchObject({ type: "gap" });
});

/** the lines of the stream from now on, or after a cursor */
async function follow(after: string): Promise<{ until(type: string): Promise<Line[]> }> {
  const { url, key } = daemon();
  const place = after === "" ? "" : `&after=${after}`;
  const answer = await fetch(`${url}/sandkeep/v1/events?follow=true${place}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  return {
    async until(type) {
      let text = "";
      while (!text.includes(`"type":"${type}"`)) {
        const { value, done } = (await reader?.read()) ?? { done: true };
        if (done) throw new Error(`The stream ended: ${text}`);
        text += value;
      }
      await reader?.cancel();
      return text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Line);
    },
  };
}
