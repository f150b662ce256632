/** How long sessions live by Veryfront's modes: idle ones by their use, fixed ones by the clock, others for ever. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { raw } from "../clients.ts";

const daemon = daemonOfFile();

/** starts the daemon again with this time for sessions that name none, in ms */
async function restarted(time: number): Promise<void> {
  await daemon().stop();
  await daemon().start({ SANDKEEP_DEFAULT_TIMEOUT: `${time}ms` });
}

const post = (path: string, body?: unknown) => raw(daemon(), "POST", path, body === undefined ? {} : { body });
const get = (path: string) => raw(daemon(), "GET", path);
const remove = (id: string) => raw(daemon(), "DELETE", `/sandbox-sessions/${id}`);

interface Life {
  /** ms since 1970 */
  used: number;
  ends: number;
}

async function made(body?: object): Promise<{ id: string } & Life> {
  const { json } = await post("/sandbox-sessions", body);
  return { id: json.id, used: Date.parse(json.last_activity_at), ends: Date.parse(json.expires_at) };
}

async function life(id: string): Promise<Life> {
  const { json } = await get(`/sandbox-sessions/${id}`);
  return { used: Date.parse(json.last_activity_at), ends: Date.parse(json.expires_at) };
}

const isOver = async (id: string) => (await get(`/sandbox-sessions/${id}`)).status === 404;

describe("a session that has much time", () => {
  const timeout = 600_000;
  beforeAll(() => restarted(timeout));

  test.each([
    ["a heartbeat", (base: string) => post(`${base}/heartbeat`)],
    ["a command", (base: string) => post(`${base}/commands/run`, { command: "true" })],
    ["a file that is written", (base: string) => post(`${base}/files`, { files: [{ path: "f", content: "" }] })],
    ["a file that is read", (base: string) => get(`${base}/file?path=/etc/passwd`)],
  ])("%s postpones the end", async (_, use) => {
    const { id, used } = await made();
    expect((await use(`/sandbox-sessions/${id}`)).status).toBe(200);
    const now = await eventually("the use is on record", async () => {
      const latest = await life(id);
      return latest.used > used && latest;
    });
    expect(now.ends).toBe(now.used + timeout);
    await remove(id);
  });

  test("reading its state does not postpone the end", async () => {
    const { id, used, ends } = await made();
    await get(`/sandbox-sessions/${id}/commands`);
    await get("/sandbox-sessions");
    expect(await life(id)).toEqual({ used, ends });
    await remove(id);
  });

  test("an idle session can be given more time, and an unlimited one needs none", async () => {
    const [idle, always] = await Promise.all([made(), made({ ttl_mode: "always_on" })]);
    const extend = (id: string) => post(`/v2/sandboxes/sessions/${id}/extend-timeout`, { duration: 600_000 });
    expect((await extend(idle.id)).json.session.timeout).toBe(timeout + 600_000);
    const now = await life(idle.id);
    expect(now.ends).toBeGreaterThanOrEqual(idle.used + timeout + 600_000);
    expect((await extend(always.id)).status).toBe(200);
    expect((await get(`/sandbox-sessions/${always.id}`)).json.expires_at).toBeNull();
    for (const { id } of [idle, always]) await remove(id);
  });

  test("a fork and a new session of the same sandbox keep how their time is counted, and the workspace", async () => {
    const { id } = await made({ ttl_mode: "always_on" });
    await post(`/sandbox-sessions/${id}/files`, { files: [{ path: "f", content: "kept" }] });
    const empty = (await post(`/v2/sandboxes/${id}/fork`, {})).json.session.id;
    await post(`/v2/sandboxes/sessions/${id}/snapshot`);
    const resumed = (await get(`/v2/sandboxes/${id}?resume=true`)).json.session.id;
    for (const other of [empty, resumed]) {
      expect((await get(`/sandbox-sessions/${other}`)).json).toMatchObject({ ttl_mode: "always_on", expires_at: null });
      const ran = await post(`/sandbox-sessions/${other}/commands/run`, { command: "pwd; touch new && cat f" });
      expect(ran.json.stdout).toBe(other === resumed ? "/workspace\nkept" : "/workspace\n");
      await remove(other);
    }
  });
});

/** of sessions whose end is waited for; longer than a busy host takes for the first use of one */
const timeout = 6000;

describe("a session that has little time", () => {
  beforeAll(() => restarted(timeout));
  afterAll(() => restarted(600_000));

  // Each waits for the end of its own session, so they wait together.
  describe.concurrent("and is used or not", () => {
    test("an unused session ends when its time is over", async () => {
      const { id, used, ends } = await made();
      expect(ends).toBe(used + timeout);
      await eventually("it ended", () => isOver(id), { everyMs: 100 });
      expect(Date.now()).toBeGreaterThanOrEqual(ends);
      expect((await get(`/v2/sandboxes/sessions/${id}`)).json.session.status).toBe("stopped");
    });

    test("a running command keeps its session alive, and its end counts as a use", async () => {
      const { id, ends } = await made();
      const started = await post(`/sandbox-sessions/${id}/commands`, { command: "sleep 600" });
      await eventually(
        "it lives beyond its first end",
        async () => Date.now() > ends + timeout / 2 && !(await isOver(id)),
        { everyMs: 100 },
      );
      const before = await life(id);
      expect(before.ends).toBeGreaterThan(ends);
      await post(`/sandbox-sessions/${id}/commands/${started.json.id}/cancel`);
      await eventually("it ended", () => isOver(id), { everyMs: 100 });
    });
  });

  test("after a restart of the daemon idle sessions start their time again, and unlimited ones are unchanged", async () => {
    const [idle, always] = await Promise.all([made(), made({ ttl_mode: "always_on" })]);
    await daemon().kill9();
    await eventually("its time is over", () => Date.now() > idle.ends, { everyMs: 100 });
    await daemon().start();
    const now = await life(idle.id);
    expect(now.used).toBeGreaterThan(idle.ends);
    expect(now.ends).toBe(now.used + timeout);
    await eventually("it ended", () => isOver(idle.id), { everyMs: 100 });
    expect((await get(`/sandbox-sessions/${always.id}`)).json).toMatchObject({ status: "running", expires_at: null });
    await remove(always.id);
  });
});

test.each(["commands/run", "commands/stream"])(
  "a daemon that stops does not end a command whose caller waited for it: %s",
  async (way) => {
    const { id } = await made({ ttl_mode: "always_on" });
    const waiting = post(`/sandbox-sessions/${id}/${way}`, { command: "sleep 600" }).catch(() => "cut off");
    const running = async () => {
      const { json } = await get(`/sandbox-sessions/${id}/commands`);
      return json.commands.map(({ status }: { status: string }) => status).join() === "running";
    };
    await eventually("it runs", running);
    await daemon().stop();
    expect(await waiting).toBe("cut off");
    await daemon().start();
    expect((await post(`/sandbox-sessions/${id}/commands/run`, { command: "pgrep -x sleep" })).json.exit_code).toBe(0);
    await remove(id);
  },
);
