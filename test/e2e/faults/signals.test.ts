/** A daemon as a service: how it ends on a signal, and what does not end it. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually, root } from "../../harness/harness.ts";
import { raw } from "../clients.ts";

const undo = new AsyncDisposableStack();
let daemon: TestDaemon;

beforeAll(async () => {
  daemon = await startDaemon(undo);
});
afterAll(() => undo.disposeAsync());

test("a create that is under way when the daemon gets SIGTERM is finished and answered", async () => {
  const creates = Array.from({ length: 8 }, (_, n) =>
    raw(daemon, "POST", "/v3/sandboxes", { body: { name: `under-way-${n}` } }),
  );
  const answered = Promise.all(creates.map((create) => create.catch((error: Error) => error)));
  await eventually(
    "all creates have arrived",
    async () => (await raw(daemon, "GET", "/v2/sandboxes")).json.sandboxes.length === 8,
  );
  await daemon.stop();
  const answers = await answered;
  expect(answers.filter((answer) => answer instanceof Error)).toEqual([]);
  await daemon.start();
  for (let n = 0; n < 8; n++) {
    expect((await raw(daemon, "GET", `/v2/sandboxes/under-way-${n}`)).json.session.status).toBe("running");
    await raw(daemon, "DELETE", `/v2/sandboxes/under-way-${n}`);
  }
});

test("streams end with a line that says why, their commands keep running, and no output is lost", async () => {
  const { json } = await raw(daemon, "POST", "/v3/sandboxes", { body: { name: "streams" } });
  const commands = `/v2/sandboxes/sessions/${json.session.id}/cmd`;
  const script = "i=0; while [ ! -e /tmp/end ]; do i=$((i + 1)); echo $i; sleep 0.1; done; echo end";
  const body = { command: "sh", args: ["-c", script], wait: true, logs: true };
  const attached = await begun("POST", commands, body);
  const id = await eventually("it runs", async () => (await raw(daemon, "GET", commands)).json.commands[0]?.id);
  const logs = await begun("GET", `${commands}/${id}/logs`);
  await daemon.stop();
  for (const text of await Promise.all([attached.rest, logs.rest])) {
    expect(JSON.parse(text.trim().split("\n").at(-1) ?? "")).toEqual({
      stream: "error",
      data: { code: "sandbox_stream_closed", message: expect.stringContaining("the daemon is stopping") },
    });
  }
  await daemon.start();
  await raw(daemon, "POST", commands, { body: { command: "touch", args: ["/tmp/end"], wait: true } });
  const again = await raw(daemon, "GET", `${commands}/${id}/logs`);
  const printed = again.text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).data)
    .join("")
    .trim()
    .split("\n");
  expect(printed.pop()).toBe("end");
  expect(printed).toEqual(printed.map((_, index) => `${index + 1}`));
  expect(printed.length).toBeGreaterThan(2);
  await raw(daemon, "DELETE", "/v2/sandboxes/streams");
});

test("the daemon waits for a slow request up to a limit, and no longer after a second signal", async () => {
  // Its body never ends, so it is never answered.
  const headers = {
    authorization: `Bearer ${daemon.key}`,
    "content-type": "application/json",
    "content-length": "100",
    expect: "100-continue",
  };
  await daemon.stop();
  await daemon.start({ SANDKEEP_DRAIN_TIMEOUT: "1h" });
  const hang = async () => {
    const hanging = request(`${daemon.url}/v3/sandboxes`, { method: "POST", headers });
    hanging.on("error", () => undefined).flushHeaders();
    await once(hanging, "continue");
    return hanging;
  };
  const first = await hang();
  process.kill(daemon.pid, "SIGTERM");
  await eventually("it accepts nothing more", () => isClosed(daemon.url));
  // Sooner the second signal would count as the first one, passed on.
  await pause(1500);
  expect(daemon.ended()).toBeUndefined();
  process.kill(daemon.pid, "SIGTERM");
  await eventually("it has ended", () => daemon.ended() === 0);
  first.destroy();
  await daemon.start({ SANDKEEP_DRAIN_TIMEOUT: "1s" });
  const second = await hang();
  process.kill(daemon.pid, "SIGTERM");
  await eventually("it has ended without another signal", () => daemon.ended() === 0);
  second.destroy();
  await daemon.start({ SANDKEEP_DRAIN_TIMEOUT: "10s" });
});

test("SIGHUP changes nothing", async () => {
  const { pid } = daemon;
  process.kill(pid, "SIGHUP");
  expect((await raw(daemon, "GET", "/health")).status).toBe(200);
  expect(daemon.pid).toBe(pid);
});

test("a daemon whose output is closed keeps running, and SIGTERM to npm start reaches it", async () => {
  await daemon.stop();
  const env = {
    ...process.env,
    SANDKEEP_DATA_DIR: daemon.dataDir,
    SANDKEEP_RUN_DIR: daemon.runDir,
    SANDKEEP_PORT: "0",
    SANDKEEP_API_KEY: daemon.key,
  };
  const npm = spawn("npm", ["start"], { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  const exited = once(npm, "exit");
  let url = "";
  for await (const line of createInterface(npm.stdout)) {
    url = /^sandkeep ready (http:\S+)$/.exec(line)?.[1] ?? "";
    if (url !== "") break;
  }
  npm.stdout.destroy();
  npm.stderr.destroy();
  expect((await fetch(`${url}/health`)).status).toBe(200);
  npm.kill("SIGTERM");
  await exited;
  await eventually("nobody serves there any more", () => isClosed(url));
  // The directory is free for the next one.
  await daemon.start();
});

test("an uncaught exception starts the daemon again, and sandboxes run on", async () => {
  await daemon.stop();
  process.env.NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent('process.on("SIGUSR2",()=>{throw new Error("a bug")})')}`;
  await daemon.start();
  delete process.env.NODE_OPTIONS;
  const { json } = await raw(daemon, "POST", "/v3/sandboxes", { body: { name: "over-a-failure" } });
  const { pid } = daemon;
  process.kill(pid, "SIGUSR2");
  await eventually("it is ready again", () => daemon.said().split("sandkeep ready").length === 3);
  expect([daemon.pid, daemon.ended()]).toEqual([pid, undefined]);
  expect(daemon.complaints()).toContain("The daemon failed, and starts again: a bug");
  const commands = `/v2/sandboxes/sessions/${json.session.id}/cmd`;
  const { text } = await raw(daemon, "POST", commands, { body: { command: "echo", args: ["alive"], wait: true } });
  expect(text).toContain('"exitCode":0');
  await raw(daemon, "DELETE", "/v2/sandboxes/over-a-failure");
});

/** a request whose answer has begun with the first output; `rest` is the text of the whole answer */
async function begun(method: string, path: string, body?: object): Promise<{ rest: Promise<string> }> {
  const answer = await fetch(`${daemon.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${daemon.key}`, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const pieces = (answer.body ?? new ReadableStream<Uint8Array>()).pipeThrough(new TextDecoderStream()).values();
  let said = "";
  while (!said.includes('"stdout"')) {
    const { value, done } = await pieces.next();
    if (done) throw new Error(`Cannot wait for output: the answer ended with ${said}`);
    said += value;
  }
  const whole = async () => {
    for await (const piece of pieces) said += piece;
    return said;
  };
  return { rest: whole() };
}

/** whether nothing accepts connections there */
function isClosed(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(
    () => false,
    () => true,
  );
}
