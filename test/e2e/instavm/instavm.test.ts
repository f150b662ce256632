/** InstaVM's API against a real daemon: what each route answers, and its effect inside. */

import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { sandboxList } from "../../schemas/instavm.ts";
import { violations } from "../../schemas/schema.ts";
import { raw } from "../clients.ts";
import { form, instavm } from "./instavm.ts";

const daemon = daemonOfFile();
const ask = instavm(daemon);
const zoneless = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/;

/** a session of its own for a test */
async function session(body: object = {}) {
  const { status, json } = await ask("POST", "/v1/sessions/session", { api_key: daemon().key, ...body });
  expect(status).toBe(200);
  return json as { session_id: string; vm_id: string };
}

async function run(sessionId: string, command: string, language = "bash") {
  const { status, json } = await ask("POST", "/execute", { session_id: sessionId, command, language });
  expect(status, JSON.stringify(json)).toBe(200);
  return json;
}

const sandboxes = (metadata: object) =>
  ask("GET", `/v1/sessions/sandboxes?metadata=${encodeURIComponent(JSON.stringify(metadata))}`);

describe("GET /v1/sessions/sandboxes", () => {
  test("is the documented array: newest first, ended ones as killed, by any key of the account", async () => {
    const mark = crypto.randomUUID();
    const first = await session({ metadata: { mark, userId: "123", env: "dev" }, vm_lifetime_seconds: 600 });
    const second = await session({ metadata: { mark, userId: "456", deep: { a: [1, 2], b: { c: true, d: null } } } });
    await ask("POST", "/kill", { session_id: first.session_id });
    const { status, json } = await sandboxes({ mark });
    expect(status).toBe(200);
    expect(violations(sandboxList, json)).toEqual([]);
    expect(json).toEqual([
      {
        sandbox_id: second.vm_id,
        template_id: null,
        name: "default",
        metadata: { mark, userId: "456", deep: { a: [1, 2], b: { c: true, d: null } } },
        started_at: expect.stringMatching(zoneless),
        end_at: expect.stringMatching(zoneless),
        status: "active",
      },
      {
        sandbox_id: first.vm_id,
        template_id: null,
        name: "default",
        metadata: { mark, userId: "123", env: "dev" },
        started_at: expect.stringMatching(zoneless),
        end_at: null,
        status: "killed",
      },
    ]);
    expect(Date.parse(`${json[0].end_at}Z`) - Date.parse(`${json[0].started_at}Z`)).toBe(300_000);
    const bearer = await raw(daemon(), "GET", "/v1/sessions/sandboxes?limit=1");
    expect(bearer.json.map(({ sandbox_id: id }: { sandbox_id: string }) => id)).toEqual([second.vm_id]);
    expect((await fetch(new URL("/v1/sessions/sandboxes", daemon().url))).status).toBe(401);
  });

  test("finds metadata that contains every pair, also every pair of a nested value", async () => {
    const mark = crypto.randomUUID();
    const metadata = { mark, userId: "123", n: 7, deep: { a: [1, 2, 3], b: { c: true, d: null } } };
    const { vm_id: id } = await session({ metadata });
    const found = async (filter: object) => (await sandboxes({ mark, ...filter })).json.length;
    for (const filter of [
      {},
      { userId: "123" },
      { userId: "123", n: 7 },
      { deep: {} },
      { deep: { b: { c: true } } },
      { deep: { b: { d: null }, a: [3, 1] } },
    ]) {
      expect((await sandboxes({ mark, ...filter })).json, JSON.stringify(filter)).toMatchObject([{ sandbox_id: id }]);
    }
    for (const filter of [
      { userId: 123 },
      { userId: "123", n: 8 },
      { other: null },
      { deep: { b: { c: false } } },
      { deep: { b: { c: true, e: 1 } } },
      { deep: [1] },
      { deep: { a: [4] } },
    ]) {
      expect(await found(filter), JSON.stringify(filter)).toBe(0);
    }
  });

  test("shows a sandbox of another API, and what it was made from", async () => {
    const mark = crypto.randomUUID();
    const made = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: `vercel-${mark}`, tags: { mark } } });
    expect((await sandboxes({ mark })).json).toMatchObject([{ sandbox_id: made.json.session.id, name: "default" }]);
    const said = await run(`vercel-${mark}`, "id -un");
    expect(said.stdout).toBe("ubuntu\n");
    const { json: snapshot } = await ask("POST", `/v1/vms/${made.json.session.id}/snapshot`, { name: "base" });
    const { json: vm } = await ask("POST", "/v1/vms", { snapshot_id: snapshot.id, metadata: { mark, from: "it" } });
    expect((await sandboxes({ from: "it", mark })).json).toMatchObject([
      { sandbox_id: vm.vm_id, template_id: snapshot.id, name: snapshot.id },
    ]);
  });
});

describe("sessions", () => {
  test("have the requested size, environment and lifetime", async () => {
    const wanted = { vm_lifetime_seconds: 120, memory_mb: 256, vcpu_count: 1, env: { WORD: "hi" }, metadata: { a: 1 } };
    const made = await session(wanted);
    expect(made).toMatchObject({
      session_id: expect.stringMatching(/^sandbox_/),
      vm_id: expect.stringMatching(/^sbx_/),
      vm_status: "active",
      vm_lifetime_seconds: 120,
      memory_mb: 256,
      vcpu_count: 1,
      metadata: { a: 1 },
    });
    const { session_id: id } = made;
    expect((await ask("GET", `/v1/sessions/session/${id}`)).json).toEqual(made);
    expect((await run(id, "echo $WORD; id -u")).stdout).toBe("hi\n0\n");
    // More than it has, and less than what comes with a processor.
    const eaten = await run(id, "x = bytearray(600 << 20)", "python");
    expect(eaten.exit_code).not.toBe(0);
  });

  test("need a key, in the body or in a header", async () => {
    const send = (body: object, headers = {}) =>
      fetch(new URL("/v1/sessions/session", daemon().url), {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    const none = await send({});
    expect(none.status).toBe(422);
    expect(await none.json()).toEqual({
      detail: [{ loc: ["body", "api_key"], msg: "Field required", type: "missing" }],
    });
    expect((await send({ api_key: "nobody's" })).status).toBe(401);
    expect((await send({}, { "x-api-key": "nobody's" })).status).toBe(401);
    expect((await send({}, { authorization: `Bearer ${daemon().key}` })).status).toBe(200);
    expect((await send({ api_key: daemon().key }, { "x-api-key": "nobody's" })).status).toBe(401);
    const unknown = await fetch(new URL("/v1/vms", daemon().url));
    expect([unknown.status, await unknown.json()]).toEqual([401, { detail: "Invalid or missing API key" }]);
  });

  test("show their state and use, and are gone once deleted", async () => {
    const { session_id: id, vm_id: vm } = await session();
    const status = async () => (await ask("GET", `/v1/sessions/status/${id}`)).json;
    expect(await status()).toEqual({ session_id: id, vm_id: vm, vm_status: "active" });
    await run(id, "import hashlib\nfor i in range(300000): hashlib.sha256(b'x').digest()", "python");
    const { json: used } = await ask("GET", `/v1/sessions/usage/${id}`);
    expect(used).toMatchObject({ session_id: id, ingress_bytes: 0, egress_bytes: 0 });
    expect(used.cpu_time).toBeGreaterThan(0.05);
    expect(used.run_time).toBeGreaterThan(0);
    expect((await ask("POST", "/kill", { session_id: id })).json).toMatchObject({ vm_id: vm, session_id: id });
    expect(await status()).toMatchObject({ vm_status: "killed" });
    expect((await ask("GET", `/v1/sessions/usage/${id}`)).json.cpu_time).toBeGreaterThanOrEqual(used.cpu_time);
    expect((await ask("POST", "/kill", { session_id: id })).status).toBe(404);
    expect((await ask("DELETE", `/v1/sessions/session/${id}`)).status).toBe(200);
    expect(await ask("GET", `/v1/sessions/session/${id}`)).toMatchObject({
      status: 404,
      json: { detail: "Session not found" },
    });
  });

  test("get a new machine from the image with the next execution after the last was killed", async () => {
    const { session_id: id, vm_id: first } = await session({ env: { KEPT: "yes" }, metadata: { kept: true } });
    await run(id, "echo x > /tmp/file");
    await ask("POST", "/kill", { session_id: id });
    const again = await Promise.all([run(id, "echo $KEPT; ls /tmp/file 2>&1 || true"), run(id, "true")]);
    expect(again[0]?.stdout).toMatch(/^yes\nls: .*No such file/);
    const { json } = await ask("GET", `/v1/sessions/session/${id}`);
    expect(json).toMatchObject({ vm_status: "active", metadata: { kept: true } });
    expect(json.vm_id).not.toBe(first);
    expect((await ask("GET", `/v1/vms/${first}`)).json).toMatchObject({ vm_id: first, status: "killed" });
  });
});

describe("executions", () => {
  test("run in each language and report output, exit and duration", async () => {
    const { session_id: id } = await session();
    // A shell sometimes ends within a millisecond.
    const code: [string | undefined, string, string][] = [
      [undefined, "import sys; print('é', 6*7); print('oh', file=sys.stderr); sys.exit(3)", "é 42\n"],
      ["bash", "[[ 1 ]] && echo bash $((6*7)); echo oh >&2; sleep 0.01; exit 3", "bash 42\n"],
      ["sh", "echo $((6*7)); echo oh >&2; sleep 0.01; exit 3", "42\n"],
      ["javascript", "console.log(6*7); console.error('oh'); process.exitCode = 3", "42\n"],
    ];
    for (const [language, command, stdout] of code) {
      const { json } = await ask("POST", "/execute", { session_id: id, command, ...(language && { language }) });
      expect(json).toMatchObject({ stdout, stderr: "oh\n", exit_code: 3, session_id: id, output_truncated: false });
      expect(json.execution_time).toBeGreaterThan(0);
      expect(json.cpu_time).toBeGreaterThan(0);
    }
    const { json } = await ask("POST", "/execute", { code: "print('alone')", api_key: daemon().key });
    expect(json).toMatchObject({ stdout: "alone\n", session_id: expect.not.stringMatching(id) });
  });

  test("can be polled and listed, and outlive the client that waited", async () => {
    const { session_id: id, vm_id: vm } = await session();
    const slow = "echo begun; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo done; echo oh >&2";
    const late = await ask("POST", "/execute", { session_id: id, command: slow, language: "bash", timeout: 1 });
    expect(late.status).toBe(408);
    const task = /cmd_\w+/.exec(late.json.detail)?.[0] ?? "";
    const { json: begun } = await ask("POST", "/execute_async", { session_id: id, command: slow, language: "bash" });
    expect(begun).toMatchObject({ task_id: expect.stringMatching(/^cmd_/), session_id: id, vm_id: vm });
    const poll = async (execution: string) => (await ask("GET", `/v1/executions/${execution}`)).json;
    expect(await poll(task)).toMatchObject({ is_complete: false, cpu_time: null, execution_time: null });
    await run(id, "touch /tmp/go");
    for (const each of [task, begun.task_id]) {
      const done = await eventually("the execution ends", async () => {
        const state = await poll(each);
        return state.is_complete && state;
      });
      expect(done).toMatchObject({
        id: each,
        task_id: each,
        vm_id: vm,
        serialized_stdout: "begun\ndone\n",
        serialized_stderr: "oh\n",
        exit_code: 0,
        created_at: expect.stringMatching(zoneless),
        cpu_time: expect.any(Number),
        execution_time: expect.any(Number),
      });
    }
    const { json: ofSession } = await ask("GET", `/v1/executions/?session_id=${id}`);
    expect(ofSession.map((each: { id: string }) => each.id).slice(1)).toEqual([begun.task_id, task]);
    const { json: all } = await ask("GET", "/v1/executions?limit=2");
    expect(all).toEqual(ofSession.slice(0, 2));
  });

  test("that print much are cut, and say so", async () => {
    const { session_id: id } = await session();
    const loud = await run(id, "head -c 9000000 /dev/zero | tr '\\0' x; echo end >&2");
    expect(loud).toMatchObject({ output_truncated: true, stderr: "end\n" });
    expect(loud.stdout).toBe("x".repeat(8 << 20));
  });
});

describe("files", () => {
  test("are sent and fetched as they are, and a tar is unpacked", async () => {
    const { session_id: id } = await session();
    const bytes = new Uint8Array(1 << 20).map((_, i) => i * 7);
    const sent = await ask(
      "POST",
      "/upload",
      form({ file: new Blob([bytes]), remote_path: "/app/a/b.bin", session_id: id, recursive: "false" }),
    );
    expect(sent.json).toMatchObject({ remote_path: "/app/a/b.bin", size: bytes.length });
    const got = await ask("POST", "/download", new URLSearchParams({ filename: "/app/a/b.bin", session_id: id }));
    expect(got.json).toMatchObject({ filename: "/app/a/b.bin", size: bytes.length });
    expect(Buffer.from(got.json.content, "base64").equals(bytes)).toBe(true);
    expect(await ask("POST", "/download", form({ filename: "/none", session_id: id }))).toMatchObject({
      status: 404,
      json: { detail: 'File not found: "/none"' },
    });
    expect((await ask("POST", "/download", form({ filename: "/app", session_id: id }))).status).toBe(400);

    const tar = await run(id, "cd /app && tar cz a | base64 -w0");
    const body = { file: new Blob([Buffer.from(tar.stdout, "base64")]), remote_path: "/copy", session_id: id };
    expect((await ask("POST", "/upload", form({ ...body, recursive: "true" }))).status).toBe(200);
    expect((await run(id, "cmp /copy/a/b.bin /app/a/b.bin && echo same")).stdout).toBe("same\n");
  });
});

describe("vms", () => {
  test("are made, listed, changed and killed", async () => {
    const mark = crypto.randomUUID();
    const made = await ask("POST", "/v1/vms?wait=true", {
      vm_lifetime_seconds: 100,
      memory_mb: 512,
      vcpu_count: 2,
      metadata: { mark },
      env: { A: "1" },
      egress_policy: { allow_package_managers: false, allow_http: false, allow_https: false },
      share: { port: 8000 },
    });
    expect(made.json).toMatchObject({
      vm_id: expect.stringMatching(/^sbx_/),
      session_id: expect.stringMatching(/^sandbox_/),
      status: "active",
      vcpu_count: 2,
      memory_mb: 512,
      vm_lifetime_seconds: 100,
      metadata: { mark },
      snapshot_id: null,
      snapshot_on_terminate: false,
      shares: [{ port: 8000, is_public: false }],
    });
    const vm = `/v1/vms/${made.json.vm_id}`;
    expect((await ask("GET", vm)).json).toEqual(made.json);
    const filter = encodeURIComponent(JSON.stringify({ mark }));
    expect((await ask("GET", `/v1/vms?metadata=${filter}`)).json).toEqual([made.json]);
    const changed = await ask("PATCH", vm, { vm_lifetime_seconds: 200, metadata: { mark, more: [1] } });
    expect(changed.json).toMatchObject({ vm_lifetime_seconds: 200, metadata: { mark, more: [1] } });
    const span = Date.parse(`${changed.json.end_at}Z`) - Date.parse(`${changed.json.started_at}Z`);
    expect(span).toBe(200_000);
    expect((await ask("DELETE", vm)).json).toMatchObject({ vm_id: made.json.vm_id });
    expect((await ask("GET", vm)).json).toMatchObject({ status: "killed", end_at: null });
    expect((await ask("DELETE", vm)).status).toBe(404);
    for (const verb of ["suspend", "resume", "snapshot", "clone"]) {
      expect((await ask("POST", `${vm}/${verb}`, {})).status, verb).toBe(409);
    }
    const again = await ask("POST", "/v1/vms", { session_id: made.json.session_id });
    expect(again.json).toMatchObject({ session_id: made.json.session_id, status: "active", memory_mb: 512 });
  });

  test("keep their files and their id over a suspend", async () => {
    const { session_id: id, vm_id: first } = await session();
    await run(id, "echo kept > /root/file");
    const suspended = await ask("POST", `/v1/vms/${first}/suspend`);
    expect(suspended.json).toMatchObject({ vm_id: first, status: "suspended" });
    expect((await ask("GET", `/v1/sessions/status/${id}`)).json.vm_status).toBe("suspended");
    const resumed = await ask("POST", `/v1/vms/${first}/resume`);
    expect(resumed.json).toMatchObject({ session_id: id, status: "active" });
    const second = resumed.json.vm_id;
    expect((await ask("GET", `/v1/vms/${first}`)).json).toEqual(resumed.json);
    expect((await run(id, "cat /root/file")).stdout).toBe("kept\n");
    await ask("POST", `/v1/vms/${first}/suspend`);
    expect((await ask("GET", `/v1/vms/${second}`)).json.status).toBe("suspended");
    // An execution resumes it, too.
    expect((await run(id, "cat /root/file")).stdout).toBe("kept\n");
    await ask("POST", `/v1/vms/${first}/suspend`);
    expect((await ask("DELETE", `/v1/vms/${first}`)).status).toBe(200);
    expect((await ask("GET", `/v1/sessions/session/${id}`)).status).toBe(404);
  });

  test("are copied while they run, and captured by name", async () => {
    const { session_id: id, vm_id: vm } = await session({ memory_mb: 301, vcpu_count: 1, env: { E: "x" } });
    await run(id, "echo one > /root/file");
    const clone = await ask("POST", `/v1/vms/${vm}/clone`, { snapshot_name: "clone-point" });
    expect(clone.json).toMatchObject({ status: "active", memory_mb: 301, vcpu_count: 1 });
    await run(id, "echo two > /root/file");
    expect((await run(clone.json.session_id, "cat /root/file; echo $E")).stdout).toBe("one\nx\n");
    const snapshot = await ask("POST", `/v1/vms/${vm}/snapshot?wait=true`, { name: "configured" });
    expect(snapshot.json).toMatchObject({ name: "configured", status: "ready", vm_id: vm, expires_at: null });
    const names = (await ask("GET", "/v1/snapshots?type=user")).json.map((each: { name: string }) => each.name);
    expect(names).toEqual(expect.arrayContaining(["configured", "clone-point"]));
    const from = await ask("POST", "/v1/vms", { snapshot_id: snapshot.json.id });
    expect((await run(from.json.session_id, "cat /root/file")).stdout).toBe("two\n");
    expect((await ask("GET", `/v1/snapshots/${snapshot.json.id}`)).json).toEqual(snapshot.json);
    expect((await ask("DELETE", `/v1/snapshots/${snapshot.json.id}`)).status).toBe(200);
    expect((await ask("GET", `/v1/snapshots/${snapshot.json.id}`)).status).toBe(404);
    // A deleted one does not count towards the limit.
    expect((await ask("GET", "/v1/snapshots?limit=1")).json).toMatchObject([{ name: "clone-point" }]);
    expect((await ask("POST", "/v1/vms", { snapshot_id: snapshot.json.id })).status).toBe(410);
  });

  test("leave a named snapshot when they end, if requested", async () => {
    const body = { snapshot_on_terminate: true, snapshot_name: "at-the-end" };
    const { json: vm } = await ask("POST", "/v1/vms", body);
    await run(vm.session_id, "echo kept > /root/file");
    await ask("DELETE", `/v1/vms/${vm.vm_id}`);
    const all = (await ask("GET", "/v1/snapshots")).json;
    const left = all.find((each: { name: string }) => each.name === "at-the-end");
    const from = await ask("POST", "/v1/vms", { snapshot_id: left.id });
    expect((await run(from.json.session_id, "cat /root/file")).stdout).toBe("kept\n");
  });
});

describe("snapshots of images", () => {
  test("are built from images of this host, and ready when the request is answered", async () => {
    const { status, json } = await ask("POST", "/v1/snapshots", {
      oci_image: "ubuntu",
      name: "built",
      vcpu_count: 3,
      build_args: { envs: { WORD: "hi" }, post_build_cmd: "mkdir -p /app && echo $WORD > /app/word" },
    });
    expect([status, json]).toMatchObject([200, { name: "built", status: "ready", oci_image: "ubuntu" }]);
    const { json: vm } = await ask("POST", "/v1/vms", { snapshot_id: json.id });
    expect((await run(vm.session_id, "cat /app/word")).stdout).toBe("hi\n");
    const before = (await ask("GET", "/v1/snapshots")).json.length;
    const failed = await ask("POST", "/v1/snapshots", {
      oci_image: "ubuntu",
      build_args: { post_build_cmd: "echo no such luck >&2; exit 7" },
    });
    expect(failed).toMatchObject({
      status: 400,
      json: { detail: "Cannot build the snapshot: post_build_cmd ended with code 7: no such luck" },
    });
    const pulled = await ask("POST", "/v1/snapshots", { oci_image: "docker.io/library/python:3.11-slim" });
    expect(pulled.status).toBe(400);
    expect(pulled.json.detail).toContain("sandkeep image import");
    expect((await ask("GET", "/v1/snapshots")).json).toHaveLength(before);
    expect((await ask("GET", "/v1/snapshots?type=system")).json).toEqual([]);
  });
});

describe("terminals", () => {
  test.each(["vms", "sessions"] as const)(
    "of %s take input over a WebSocket, and report how they ended",
    async (kind) => {
      const made = await session();
      const path = `/v1/${kind}/${kind === "vms" ? made.vm_id : made.session_id}/pty/sessions`;
      const { status, json: pty } = await ask("POST", path, { cols: 100, rows: 30, shell: "sh" });
      expect([status, pty]).toMatchObject([
        201,
        { cols: 100, rows: 30, status: "running", connect_token: expect.any(String) },
      ]);
      expect((await ask("GET", path)).json.sessions).toMatchObject([{ pty_id: pty.pty_id, status: "running" }]);
      await ask("POST", `${path}/${pty.pty_id}/resize`, { cols: 50, rows: 20 });
      const socket = new WebSocket(pty.url);
      let printed = "";
      let exit: unknown;
      socket.on("message", (data: Buffer, isBinary: boolean) => {
        if (isBinary) printed += data.toString();
        else exit = JSON.parse(data.toString());
      });
      await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
      socket.send(Buffer.from("stty size; exit 5\n"));
      await eventually("the shell ends", () => exit);
      expect(exit).toEqual({ type: "exit", exit_code: 5 });
      expect(printed).toContain("20 50");
      expect((await ask("GET", `${path}/${pty.pty_id}`)).json).toMatchObject({ status: "exited", exit_code: 5 });
      const refused = new WebSocket(pty.url.replace(/token=.*/, "token=wrong"));
      await expect(new Promise((_, reject) => refused.once("error", reject))).rejects.toThrow("401");
      expect((await ask("DELETE", `${path}/${pty.pty_id}`)).status).toBe(200);
      expect((await ask("GET", `${path}/${pty.pty_id}`)).status).toBe(404);
    },
  );
});
