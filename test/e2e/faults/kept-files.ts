/** Sandboxes with one file each, for tests of what a daemon keeps: created, written to and read over HTTP. */

import { expect } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { raw } from "../clients.ts";

/** the id of its session */
export async function create(daemon: TestDaemon, name: string, body: object = {}): Promise<string> {
  const made = await raw(daemon, "POST", "/v3/sandboxes", { body: { name, ...body } });
  expect(made, made.text).toMatchObject({ status: 200 });
  return made.json.session.id;
}

export async function write(daemon: TestDaemon, session: string, path: string, content: string): Promise<void> {
  const body = { command: "sh", args: ["-c", `printf %s "$CONTENT" > ${path}`], env: { CONTENT: content }, wait: true };
  const answer = await raw(daemon, "POST", `/v2/sandboxes/sessions/${session}/cmd`, { body });
  expect(answer.text).toContain('"exitCode":0');
}

/** reads the sandbox's file, and resumes the sandbox for it unless it runs */
export async function read(daemon: TestDaemon, name: string, path: string): Promise<string> {
  const { json } = await raw(daemon, "GET", `/v2/sandboxes/${name}?resume=true`);
  return (await raw(daemon, "POST", `/v2/sandboxes/sessions/${json.session.id}/fs/read`, { body: { path } })).text;
}
