/** What surrounds a machine on InstaVM's wire: volumes and their files, shares, egress, keys, and what is not offered. */

import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { registries } from "../../../src/api/instavm/egress.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { read } from "../../harness/network/ingress.ts";
import { raw } from "../clients.ts";
import { form, instavm } from "./instavm.ts";

const daemon = daemonOfFile();
const ask = instavm(daemon);

async function vm(body: object = {}) {
  const { status, json } = await ask("POST", "/v1/vms", body);
  expect(status, JSON.stringify(json)).toBe(200);
  return json as { vm_id: string; session_id: string };
}

async function run(sessionId: string, command: string) {
  const { json } = await ask("POST", "/execute", { session_id: sessionId, command, language: "bash" });
  return json.stdout as string;
}

const bytesOf = (text: string) => new Blob([text]);

describe("volumes", () => {
  test("are created, read, resized, listed and deleted", async () => {
    const made = await ask("POST", "/v1/volumes", { name: "data", quota_bytes: 64 << 20 });
    expect([made.status, made.json]).toMatchObject([201, { name: "data", quota_bytes: 64 << 20, mounted_by: null }]);
    const path = `/v1/volumes/${made.json.id}`;
    expect((await ask("POST", "/v1/volumes", { name: "data" })).status).toBe(409);
    expect((await ask("GET", `${path}?refresh_usage=true`)).json).toEqual(made.json);
    expect((await ask("GET", "/v1/volumes?refresh_usage=false")).json).toEqual([made.json]);
    expect((await ask("PATCH", path, { quota_bytes: 8 << 20 })).json).toMatchObject({ quota_bytes: 8 << 20 });
    expect((await ask("PATCH", path, { name: "other" })).status).toBe(400);
    const { session_id: id } = await vm({ volumes: [{ volume_id: made.json.id, mount_path: "/data" }] });
    expect(await run(id, "head -c 16777216 /dev/zero > /data/big 2>&1; echo $?")).toBe("1\n");
    expect((await ask("DELETE", path)).status).toBe(409);
    await ask("POST", "/kill", { session_id: id });
    expect((await ask("DELETE", path)).status).toBe(200);
    expect((await ask("GET", path)).status).toBe(404);
  });

  test("have files that are reached with and without a machine", async () => {
    const { json: volume } = await ask("POST", "/v1/volumes", { name: "files" });
    const files = `/v1/volumes/${volume.id}/files`;
    const upload = (path: string, text: string, more = {}) =>
      ask("POST", `${files}/upload`, form({ file: bytesOf(text), path, ...more }));
    expect((await upload("sets/train.csv", "a,b\n")).json).toMatchObject({ path: "sets/train.csv", size: 4 });
    expect((await upload("sets/train.csv", "no")).status).toBe(409);
    expect((await upload("/sets/../sets/train.csv", "c,d\n", { overwrite: "true" })).status).toBe(200);
    await upload("top", "t");
    const list = async (query: string) =>
      (await ask("GET", `${files}?${query}`)).json.files.map((each: { path: string }) => each.path);
    expect(await list("")).toEqual(["sets", "top"]);
    expect(await list("recursive=true")).toEqual(["sets", "top", "sets/train.csv"]);
    expect(await list("prefix=sets/")).toEqual(["sets/train.csv"]);
    expect(await list("prefix=to")).toEqual(["top"]);
    expect(await list("prefix=none/")).toEqual([]);
    const read = await ask("GET", `${files}/download?path=sets/train.csv`);
    expect([read.headers.get("content-type"), read.text]).toEqual(["application/octet-stream", "c,d\n"]);
    expect((await ask("GET", `${files}/download?path=none`)).status).toBe(404);
    expect((await ask("GET", `${files}/download?path=sets`)).status).toBe(400);

    const machine = await vm({ volumes: [{ volume_id: volume.id, mount_path: "/data" }] });
    expect((await ask("GET", `/v1/volumes/${volume.id}`)).json.mounted_by).toBe(machine.vm_id);
    expect(
      await run(machine.session_id, "cat /data/sets/train.csv; ln -s /etc/passwd /data/link; echo 2 > /data/two"),
    ).toBe("c,d\n");
    expect((await ask("GET", `${files}/download?path=two`)).text).toBe("2\n");
    expect((await ask("DELETE", `${files}?path=two`)).status).toBe(200);
    expect(await run(machine.session_id, "ls /data")).toBe("link\nsets\ntop\n");
    // A link that a program left there leads nowhere outside.
    expect((await ask("GET", `${files}/download?path=../../etc/passwd`)).status).toBe(404);
    expect((await ask("DELETE", `${files}?path=/`)).status).toBe(400);
    expect(await list("")).toEqual(["link", "sets", "top"]);
  });

  test("are mounted and unmounted while a machine is suspended", async () => {
    const { json: volume } = await ask("POST", "/v1/volumes", { name: "late" });
    const { vm_id: id, session_id: session } = await vm();
    const mounts = `/v1/vms/${id}/volumes`;
    const body = { volume_id: volume.id, mount_path: "/late", mode: "rw" };
    expect((await ask("POST", mounts, body)).status).toBe(409);
    await ask("POST", `/v1/vms/${id}/suspend`);
    const mounted = [{ volume_id: volume.id, name: "late", mount_path: "/late", mode: "rw" }];
    expect((await ask("POST", mounts, body)).json).toEqual(mounted);
    await ask("POST", `/v1/vms/${id}/resume`);
    expect(await run(session, "echo x > /late/x && ls /late")).toBe("x\n");
    expect((await ask("GET", mounts)).json).toEqual(mounted);
    await ask("POST", `/v1/vms/${id}/suspend`);
    expect((await ask("DELETE", `${mounts}/${volume.id}?mount_path=/late`)).json).toEqual([]);
    expect((await ask("DELETE", `${mounts}/${volume.id}`)).status).toBe(404);
    const reader = await vm({ volumes: [{ volume_id: volume.id, mount_path: "/late", mode: "ro" }] });
    expect(await run(reader.session_id, "cat /late/x; touch /late/y 2>/dev/null || echo refused")).toBe("x\nrefused\n");
  });
});

describe("shares", () => {
  test("lead to a port while they are public, and nowhere otherwise", async () => {
    const { vm_id: id, session_id: session } = await vm();
    const none = await ask("GET", `/v1/sessions/app-url/${session}`);
    expect(none.status).toBe(404);
    const server = "require('http').createServer((_, r) => r.end('hello')).listen(3000)";
    await ask("POST", "/execute_async", { session_id: session, command: server, language: "node" });
    const made = await ask("POST", "/v1/shares", { vm_id: id, port: 3000 });
    expect(made.json).toMatchObject({ vm_id: id, session_id: session, port: 3000, is_public: false });
    const share = `/v1/shares/${made.json.share_id}`;
    const page = async () => {
      const { status, body } = await read(
        request(daemon().url, { headers: { host: new URL(made.json.url).host } }).end(),
      );
      return status === 200 ? body.toString() : status;
    };
    expect(new URL(made.json.url).host).toMatch(/^sb-.+\.localhost:\d+$/);
    expect(await page()).toBe(404);
    expect((await ask("PATCH", share, { is_public: true })).json).toEqual({ ...made.json, is_public: true });
    await expect.poll(page).toBe("hello");
    expect((await ask("GET", `/v1/sessions/app-url/${session}?port=3000`)).json.app_url).toBe(made.json.url);
    await ask("PATCH", share, { is_public: false });
    expect(await page()).toBe(404);
    // It is not open in a copy either.
    const { json: copy } = await ask("POST", `/v1/vms/${id}/clone`);
    expect(copy.shares.filter((each: { is_public: boolean }) => each.is_public)).toEqual([]);
    await ask("DELETE", `/v1/sessions/session/${copy.session_id}`);
    // A second request returns the same share, and makes it public if it says so.
    const again = await ask("POST", "/v1/shares", { session_id: session, port: 3000, is_public: true });
    expect(again.json).toEqual({ ...made.json, is_public: true });
    expect(await page()).toBe("hello");
    expect((await ask("PATCH", share, { revoke: true })).status).toBe(200);
    expect(await page()).toBe(404);
    expect((await ask("GET", share)).status).toBe(404);
  });
});

describe("egress", () => {
  const off = {
    allow_package_managers: false,
    allow_http: false,
    allow_https: false,
    allowed_domains: [],
    allowed_cidrs: [],
  };
  const web = { ...off, allow_http: true, allow_https: true };

  test("shows what is in force, for sessions and machines, now and for the next machine", async () => {
    const { vm_id: id, session_id: session } = await vm();
    const [ofVm, ofSession] = [`/v1/egress/vm/${id}`, `/v1/egress/session/${session}`];
    expect((await ask("GET", ofVm)).json).toEqual({ ...web, allow_package_managers: true });
    const cases: [object, object][] = [
      [{}, off],
      [
        { allow_http: true, allow_https: true },
        { ...web, allow_package_managers: true },
      ],
      [{ allow_package_managers: true }, { ...off, allow_package_managers: true }],
      [
        { allow_https: true, allow_http: false, allowed_domains: ["API.example.com"], allowed_cidrs: ["10.0.0.0/8"] },
        { ...web, allowed_domains: ["api.example.com"], allowed_cidrs: ["10.0.0.0/8"] },
      ],
      [{ allowed_domains: ["*.example.com"] }, { ...web, allowed_domains: ["*.example.com"] }],
      [{ allow_https: true }, { ...web, allow_package_managers: true }],
      [{ allowed_cidrs: ["fd00::/8"] }, { ...off, allowed_cidrs: ["fd00::/8"] }],
    ];
    for (const [wanted, inForce] of cases) {
      expect((await ask("POST", ofSession, wanted)).json, JSON.stringify(wanted)).toEqual(inForce);
      expect((await ask("GET", ofVm)).json).toEqual(inForce);
    }
    const patched = await ask("PATCH", ofVm, { allow_package_managers: true });
    expect(patched.json).toEqual({ ...off, allow_package_managers: true, allowed_cidrs: ["fd00::/8"] });
    const vercel = (await raw(daemon(), "GET", `/v2/sandboxes/sessions/${id}`)).json.session.networkPolicy;
    expect(vercel).toEqual({ mode: "custom", allowedDomains: registries, allowedCIDRs: ["fd00::/8"] });
    await ask("POST", ofVm, {});
    await ask("POST", "/kill", { session_id: session });
    expect((await ask("GET", ofSession)).json).toEqual(off);
    await run(session, "true");
    expect((await ask("GET", ofSession)).json).toEqual(off);
    expect((await ask("POST", ofVm, { allow_https: false, allowed_domains: ["a.com"] })).status).toBe(422);
  });

  test("with an empty list lets nothing out", async () => {
    const { session_id: id } = await vm({ egress_policy: {} });
    const probe =
      "timeout 5 bash -c 'echo > /dev/tcp/192.0.2.1/80' 2>&1 | grep -o 'refused\\|unreachable\\|prohibited'";
    expect(await run(id, probe)).toMatch(/refused|unreachable|prohibited/);
  });
});

describe("API keys", () => {
  test("are created, used, renamed and deleted", async () => {
    const made = await ask("POST", "/v1/api-keys/", { description: "ci" });
    expect([made.status, made.json]).toMatchObject([201, { description: "ci", api_key: expect.any(String) }]);
    const { api_key: secret, ...shown } = made.json;
    const second = instavm(daemon, () => secret);
    expect((await second("GET", "/v1/api-keys/")).json).toEqual(expect.arrayContaining([shown]));
    const path = `/v1/api-keys/${shown.id}`;
    expect((await second("GET", path)).json).toEqual(shown);
    expect((await second("PATCH", path, { description: "rotated" })).json).toEqual({
      ...shown,
      description: "rotated",
    });
    // Another key of the same account sees the same things.
    const { vm_id: id } = await vm();
    expect((await second("GET", `/v1/vms/${id}`)).status).toBe(200);
    expect((await ask("DELETE", path)).status).toBe(200);
    expect((await second("GET", "/v1/vms")).status).toBe(401);
    expect((await ask("GET", path)).status).toBe(404);
  });
});

test("a route that is not offered says so", async () => {
  for (const [method, path, what] of [
    ["POST", "/v1/browser/sessions/", "browser automation is"],
    ["GET", "/v1/computeruse/x/state", "computer use is"],
    ["GET", "/v1/ssh-keys", "access by SSH is"],
    ["GET", "/v1/audit/events", "an audit log is"],
    ["POST", "/v1/webhooks/endpoints", "webhooks are"],
    ["GET", "/v1/custom-domains", "custom domains are"],
    ["POST", "/v1/vms/x/tape/start", "recording is"],
    ["POST", "/v1/volumes/x/checkpoints", "a checkpoint of a volume is"],
  ] as const) {
    const answer = await ask(method, path, method === "POST" ? {} : undefined);
    expect([answer.status, answer.json], path).toEqual([
      400,
      { detail: `Cannot serve this: ${what} not offered here` },
    ]);
  }
  for (const body of [
    { custom_domain: { domain: "a.com" } },
    { volumes: [{ volume_id: "v", mount_path: "/a", checkpoint_id: "c" }] },
  ]) {
    expect((await ask("POST", "/v1/vms", body)).json.detail).toContain("not offered here");
  }
  expect((await ask("GET", "/v1/vms/x/nothing")).json).toEqual({ detail: "Not Found" });
});
