/**
 * Bad input and other teams' ids on InstaVM's API: every field of every query, body and form is tried with wrong
 * values, and every route with a second team's key. Each is refused in the API's own shape, nothing changes, and no
 * answer is a 5xx.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { instavmApi } from "../../../src/api/instavm/instavm.ts";
import { schemas } from "../../../src/api/instavm/schemas.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { refusal } from "../../schemas/instavm.ts";
import { violations } from "../../schemas/schema.ts";
import type { RawAnswer } from "../clients.ts";
import { form, instavm, secondTeam } from "./instavm.ts";

const daemon = daemonOfFile();
const ask = instavm(daemon);
let foreignKey = "";
const foreign = instavm(daemon, () => foreignKey);

/** a word that occurs only in the first team's things */
const secret = "victims-secret";
/** values for the names in the paths and bodies: things of the first team */
const things: Record<string, string> = {};
let before: unknown;

beforeAll(async () => {
  foreignKey = await secondTeam(daemon());
  const { json: volume } = await ask("POST", "/v1/volumes", { name: secret });
  const metadata = { word: secret };
  const { json: vm } = await ask("POST", "/v1/vms", { metadata, share: { port: 3000 } });
  const run = { session_id: vm.session_id, command: `echo ${secret}; echo ${secret} > /root/file; sleep 600` };
  const { json: task } = await ask("POST", "/execute_async", { ...run, language: "bash" });
  const { json: snapshot } = await ask("POST", `/v1/vms/${vm.vm_id}/snapshot`, { name: secret });
  const { json: pty } = await ask("POST", `/v1/vms/${vm.vm_id}/pty/sessions`, {});
  const { json: suspended } = await ask("POST", "/v1/vms", { metadata });
  await ask("POST", `/v1/vms/${suspended.vm_id}/suspend`);
  const [key] = (await ask("GET", "/v1/api-keys")).json;
  Object.assign(things, {
    vm: vm.vm_id,
    session: vm.session_id,
    asleep: suspended.vm_id,
    task: task.task_id,
    snapshot: snapshot.id,
    volume: volume.id,
    share: vm.shares[0].share_id,
    pty: pty.pty_id,
    key: key.id,
  });
  before = await everything();
});

interface Endpoint {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** with `{thing}` where an id stands */
  path: string;
  /** good values by name; a `{thing}` in them is an id too */
  query?: Record<string, string>;
  body?: Record<string, unknown>;
  form?: Record<string, string | Blob>;
}

const file = new Blob(["x"]);
const egress = {
  allow_package_managers: true,
  allow_http: true,
  allow_https: true,
  allowed_domains: ["a.com"],
  allowed_cidrs: ["10.0.0.0/8"],
};
const machine = {
  vm_lifetime_seconds: 60,
  memory_mb: 256,
  vcpu_count: 1,
  metadata: { a: { b: 1 } },
  env: { A: "1" },
};
const mount = { volume_id: "{volume}", mount_path: "/mnt", mode: "rw" };
const execution = {
  command: "1",
  session_id: "{session}",
  language: "python",
  timeout: 1,
  vault_ids: [],
  api_key: "k",
};
const size = { cols: 80, rows: 24 };
const wait = { wait: "true" };

const endpoints: Endpoint[] = [
  { method: "GET", path: "/v1/sessions/sandboxes", query: { metadata: '{"a":1}', limit: "10" } },
  { method: "POST", path: "/v1/sessions/session", body: { ...machine, api_key: "k" } },
  { method: "GET", path: "/v1/sessions/session/{session}", query: {} },
  { method: "DELETE", path: "/v1/sessions/session/{session}", query: {} },
  { method: "GET", path: "/v1/sessions/status/{session}", query: {} },
  { method: "GET", path: "/v1/sessions/usage/{session}", query: {} },
  { method: "GET", path: "/v1/sessions/app-url/{session}", query: { port: "80" } },
  { method: "POST", path: "/execute", body: execution },
  { method: "POST", path: "/execute_async", body: execution },
  { method: "GET", path: "/v1/executions", query: { session_id: "{session}", limit: "1" } },
  { method: "GET", path: "/v1/executions/{task}", query: {} },
  { method: "POST", path: "/kill", body: { session_id: "{session}" } },
  { method: "POST", path: "/upload", form: { file, remote_path: "/f", session_id: "{session}", recursive: "false" } },
  { method: "POST", path: "/download", form: { filename: "/root/file", session_id: "{session}" } },
  {
    method: "POST",
    path: "/v1/vms",
    query: wait,
    body: {
      ...machine,
      session_id: "{session}",
      egress_policy: egress,
      snapshot_id: "{snapshot}",
      snapshot_on_terminate: true,
      snapshot_name: "n",
      share: { port: 80, is_public: true },
      custom_domain: { domain: "a.com" },
      volumes: [mount],
    },
  },
  { method: "GET", path: "/v1/vms", query: { metadata: "{}", limit: "1" } },
  { method: "GET", path: "/v1/vms/{vm}", query: {} },
  { method: "PATCH", path: "/v1/vms/{vm}", query: {}, body: { vm_lifetime_seconds: 60, metadata: { a: 1 } } },
  { method: "DELETE", path: "/v1/vms/{vm}", query: {} },
  { method: "POST", path: "/v1/vms/{vm}/clone", query: wait, body: { snapshot_name: "n" } },
  { method: "POST", path: "/v1/vms/{vm}/suspend", query: wait, body: {} },
  { method: "POST", path: "/v1/vms/{asleep}/resume", query: wait, body: {} },
  { method: "POST", path: "/v1/vms/{vm}/snapshot", query: wait, body: { name: "n" } },
  { method: "GET", path: "/v1/vms/{vm}/volumes", query: {} },
  { method: "POST", path: "/v1/vms/{asleep}/volumes", query: wait, body: mount },
  { method: "DELETE", path: "/v1/vms/{asleep}/volumes/{volume}", query: { mount_path: "/mnt", wait: "true" } },
  {
    method: "POST",
    path: "/v1/snapshots",
    query: {},
    body: {
      oci_image: "ubuntu",
      name: "n",
      vcpu_count: 1,
      memory_mb: 256,
      type: "user",
      build_args: {
        extra_apt_packages: "a",
        extra_pip_packages: "a",
        extra_npm_packages: "a",
        git_clone_url: "https://a.com/b",
        git_clone_branch: "main",
        disk_size_gb: 1,
        envs: { A: "1" },
        post_build_cmd: "true",
      },
    },
  },
  { method: "GET", path: "/v1/snapshots", query: { type: "user", limit: "1" } },
  { method: "GET", path: "/v1/snapshots/{snapshot}", query: {} },
  { method: "DELETE", path: "/v1/snapshots/{snapshot}", query: {} },
  ...["/v1/egress/session/{session}", "/v1/egress/vm/{vm}"].flatMap((path): Endpoint[] => [
    { method: "GET", path, query: {} },
    { method: "POST", path, query: {}, body: egress },
    { method: "PATCH", path, query: {}, body: egress },
  ]),
  { method: "POST", path: "/v1/volumes", query: {}, body: { name: "n", quota_bytes: 1 << 20 } },
  { method: "GET", path: "/v1/volumes", query: { refresh_usage: "true", limit: "1" } },
  { method: "GET", path: "/v1/volumes/{volume}", query: { refresh_usage: "true" } },
  { method: "PATCH", path: "/v1/volumes/{volume}", query: {}, body: { name: secret, quota_bytes: 1 << 20 } },
  { method: "DELETE", path: "/v1/volumes/{volume}", query: {} },
  { method: "GET", path: "/v1/volumes/{volume}/files", query: { prefix: "a", recursive: "true", limit: "1" } },
  { method: "DELETE", path: "/v1/volumes/{volume}/files", query: { path: "a" } },
  { method: "POST", path: "/v1/volumes/{volume}/files/upload", form: { file, path: "a", overwrite: "true" } },
  { method: "GET", path: "/v1/volumes/{volume}/files/download", query: { path: "a" } },
  { method: "POST", path: "/v1/shares", query: {}, body: { vm_id: "{vm}", port: 80, is_public: true } },
  { method: "GET", path: "/v1/shares/{share}", query: {} },
  { method: "PATCH", path: "/v1/shares/{share}", query: {}, body: { is_public: true, revoke: false } },
  { method: "DELETE", path: "/v1/shares/{share}", query: {} },
  { method: "POST", path: "/v1/api-keys", query: {}, body: { description: "d" } },
  { method: "GET", path: "/v1/api-keys", query: { limit: "1" } },
  { method: "GET", path: "/v1/api-keys/{key}", query: {} },
  { method: "PATCH", path: "/v1/api-keys/{key}", query: {}, body: { description: "d" } },
  { method: "DELETE", path: "/v1/api-keys/{key}", query: {} },
  ...["/v1/vms/{vm}", "/v1/sessions/{session}"].flatMap((path): Endpoint[] => [
    { method: "GET", path: `${path}/pty/sessions`, query: {} },
    { method: "POST", path: `${path}/pty/sessions`, query: {}, body: { ...size, shell: "sh" } },
    { method: "GET", path: `${path}/pty/sessions/{pty}`, query: {} },
    { method: "DELETE", path: `${path}/pty/sessions/{pty}`, query: {} },
    { method: "POST", path: `${path}/pty/sessions/{pty}/resize`, query: {}, body: size },
  ]),
];

test("the table of endpoints is complete", () => {
  // The routes are only listed, never called.
  const limits = { vcpus: 8, lifetime: 86_400_000, ports: 15, volume: 1 << 30 };
  const app = instavmApi({ limits, schemas: schemas(limits) } as never, {} as never);
  const prepared = (path: string) => path.replace(/:[a-z]+|\{[a-z]+\}/g, "{}");
  const routes = app.routes.filter(({ method }) => method !== "ALL");
  const known = new Set(endpoints.map(({ method, path }) => `${method} ${prepared(path)}`));
  expect([...known].toSorted()).toEqual(routes.map(({ method, path }) => `${method} ${prepared(path)}`).toSorted());
});

/** values that no field takes, and values that some types do not take */
const junk: unknown[] = [[], {}, "", -1, 1e9, 0.5, true, long(132_000), [[]], [null], { "": 1 }];
const junkText = ["", "nothing", "-1", "1e3", "99999999999", "null", "[]", '"x"', "{", '{"a":1', long(5000)];

describe.each(endpoints.map((endpoint) => ({ ...endpoint, title: `${endpoint.method} ${endpoint.path}` })))(
  "$title",
  (endpoint) => {
    const { query, body, form: fields } = endpoint;

    if (query) {
      test("refuses every parameter that is wrong, unknown or given twice", async () => {
        const unknown = await send(endpoint, { query: { ...query, status: "active" } });
        expectComplaint(unknown, ["query", "status"]);
        for (const name of Object.keys(query)) {
          const wrong = junkText.filter((text) => !isTakenInQuery(name, text));
          for (const text of wrong) {
            expectComplaint(await send(endpoint, { query: { ...query, [name]: text } }), ["query", name], text);
          }
          expectComplaint(await send(endpoint, {}, `&${name}=1&${name}=2`), ["query", name]);
          expectComplaint(await send(endpoint, { query: { ...query, [name]: "\0" } }), ["query"]);
        }
      });
    }

    if (body) {
      test("refuses every field that is wrong or unknown, and a malformed body", async () => {
        expectComplaint(await send(endpoint, { body: { ...body, unknown: 1 } }), ["body", "unknown"]);
        for (const { path, value } of wrongBodies(body)) {
          const answer = await send(endpoint, { body: value });
          expectComplaint(answer, ["body", ...path], JSON.stringify(value).slice(0, 300));
        }
        for (const name of Object.keys(body)) {
          expectComplaint(await send(endpoint, { body: { ...body, [name]: "\0" } }), ["body"], name);
        }
        for (const text of ["{", "[]", "null", "1", '"text"', `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}`]) {
          expectComplaint(await send(endpoint, { text }), ["body"], text.slice(0, 20));
        }
      });
    }

    if (fields) {
      test("refuses every field that is wrong, missing or unknown, and a malformed form", async () => {
        expectComplaint(await send(endpoint, { form: { ...fields, unknown: "1" } }), ["body", "unknown"]);
        for (const name of Object.keys(fields)) {
          const { [name]: _, ...others } = fields;
          const isOptional = ["recursive", "overwrite"].includes(name);
          if (!isOptional) expectComplaint(await send(endpoint, { form: others }), ["body", name]);
          const wrong = name === "file" ? ["text"] : ["", long(5000), new Blob(["x"])];
          for (const value of wrong) {
            expectComplaint(await send(endpoint, { form: { ...fields, [name]: value } }), ["body", name]);
          }
        }
        expectComplaint(await send(endpoint, { text: "{}" }), ["body"]);
      });
    }

    if (JSON.stringify(endpoint).match(/\{[a-z]+\}/)) {
      test("gives nothing to another team's key, and takes nothing from it", async () => {
        const { custom_domain: _, api_key: __, ...own } = endpoint.body ?? {};
        const answer = await send(endpoint, { body: own }, "", foreign);
        expect(answer.status, answer.text).toBe(endpoint.path === "/kill" ? 403 : 404);
        expect(answer.json).toEqual({ detail: expect.any(String) });
        expect(answer.text).not.toContain(secret);
      });
    }

    test("has changed nothing in these tests", async () => {
      expect(await everything()).toEqual(before);
    });

    if (endpoint.path.includes("{")) {
      test("does not find a malformed id", async () => {
        for (const id of ["none", "sbx_0", "..%2f..", "%00", "x".repeat(300), "%F0%9F%98%80"]) {
          const path = endpoint.path.replace(/\{[a-z]+\}/g, id);
          expect((await send({ ...endpoint, path }, {})).status, id).toBe(404);
        }
      });
    }
  },
);

test("each id of another team in a body is refused", async () => {
  const { json: own } = await foreign("POST", "/v1/vms", {});
  for (const body of [
    { session_id: things.session },
    { snapshot_id: things.snapshot },
    { volumes: [{ volume_id: things.volume, mount_path: "/mnt" }] },
  ]) {
    expect((await foreign("POST", "/v1/vms", body)).status, JSON.stringify(body)).toBe(404);
  }
  for (const body of [{ vm_id: things.vm }, { session_id: things.session }]) {
    expect((await foreign("POST", "/v1/shares", { ...body, port: 80 })).status).toBe(404);
  }
  expect((await foreign("GET", `/v1/vms/${own.vm_id}/pty/sessions/${things.pty}`)).status).toBe(404);
  expect((await foreign("DELETE", `/v1/sessions/session/${own.session_id}`)).status).toBe(200);
});

test("a second team sees nothing of the first in any list", async () => {
  for (const path of ["/v1/sessions/sandboxes", "/v1/vms", "/v1/executions", "/v1/snapshots", "/v1/volumes"]) {
    expect((await foreign("GET", path)).text, path).not.toContain(secret);
  }
  expect((await foreign("GET", "/v1/volumes")).json).toEqual([]);
  expect((await foreign("GET", "/v1/api-keys")).json).toMatchObject([{ id: "key_second" }]);
});

test("the daemon has logged no error", () => {
  expect(daemon().complaints()).toBe("");
});

interface Sent {
  query?: Record<string, string>;
  body?: unknown;
  form?: Record<string, string | Blob>;
  /** instead of a body */
  text?: string;
}

function send(endpoint: Endpoint, sent: Sent, more = "", as = ask): Promise<RawAnswer> {
  const query = new URLSearchParams(filled(sent.query ?? endpoint.query ?? {}) as Record<string, string>);
  const path = `${filled(endpoint.path)}?${query}${more}`;
  const fields = sent.form ?? endpoint.form;
  const { api_key: _, ...body } = (sent.body ?? endpoint.body ?? {}) as Record<string, unknown>;
  const own = sent.body ?? body;
  if (endpoint.method === "GET" || (endpoint.method === "DELETE" && !endpoint.body)) return as(endpoint.method, path);
  if (sent.text !== undefined) return as(endpoint.method, path, sent.text);
  if (fields) {
    const texts = Object.entries(fields).map(([name, value]) => [name, value instanceof Blob ? value : filled(value)]);
    return as(endpoint.method, path, form(Object.fromEntries(texts)));
  }
  return as(endpoint.method, path, filled(own));
}

/** with the first team's ids in the place of `{thing}` */
function filled<T>(value: T): T {
  const text = JSON.stringify(value).replace(/\{([a-z]+)\}/g, (all, name: string) => things[name] ?? all);
  return JSON.parse(text) as T;
}

/** a body for every way in which one member may be wrong, with the path to that member */
function wrongBodies(body: Record<string, unknown>): { path: (string | number)[]; value: unknown }[] {
  return Object.entries(body).flatMap(([name, good]) => {
    const wrong = junk
      .filter((value) => !isTaken(name, value))
      .map((value) => ({ path: [name], value: { ...body, [name]: value } }));
    const isPlain = typeof good === "object" && good !== null && !Array.isArray(good);
    const free = ["metadata", "env", "envs", "custom_domain"].includes(name);
    const inner = isPlain && !free ? wrongBodies(good as Record<string, unknown>) : [];
    return [
      ...wrong,
      ...inner.map(({ path, value }) => ({ path: [name, ...path], value: { ...body, [name]: value } })),
    ];
  });
}

/** values that this field takes though most do not: free texts, numbers within its range, empty lists */
function isTaken(name: string, value: unknown): boolean {
  const takes: Record<string, (value: unknown) => boolean> = {
    metadata: (it) => (typeof it === "string" ? false : JSON.stringify(it) === "{}"),
    env: (it) => JSON.stringify(it) === "{}",
    envs: (it) => JSON.stringify(it) === "{}",
    custom_domain: () => false,
    build_args: (it) => JSON.stringify(it) === "{}",
    egress_policy: (it) => JSON.stringify(it) === "{}",
    volumes: (it) => JSON.stringify(it) === "[]",
    vault_ids: (it) => JSON.stringify(it) === "[]",
    allowed_domains: (it) => JSON.stringify(it) === "[]",
    allowed_cidrs: (it) => JSON.stringify(it) === "[]",
    quota_bytes: (it) => it === 1e9,
    ...Object.fromEntries(
      ["extra_apt_packages", "extra_pip_packages", "extra_npm_packages", "post_build_cmd"].map((each) => [
        each,
        (it: unknown) => it === "",
      ]),
    ),
    ...Object.fromEntries(
      ["is_public", "revoke", "snapshot_on_terminate", "allow_package_managers", "allow_http", "allow_https"].map(
        (each) => [each, (it: unknown) => it === true],
      ),
    ),
    session_id: (it) => isText(it, 128),
    api_key: (it) => typeof it === "string" && it.length <= 8192,
  };
  return takes[name]?.(value) ?? false;
}

/** ids and paths may be any text that is not too long */
function isTakenInQuery(name: string, text: string): boolean {
  if (name === "prefix") return text.length <= 4096;
  return ["path", "mount_path", "session_id"].includes(name) && isText(text, name === "session_id" ? 128 : 4096);
}

function long(length: number): string {
  return "x".repeat(length);
}

function isText(value: unknown, longest: number): boolean {
  return typeof value === "string" && value !== "" && value !== "\0" && value.length <= longest;
}

/** a 422 of the documented shape that names the place */
function expectComplaint(answer: RawAnswer, loc: (string | number)[], what = ""): void {
  expect(answer.status, `${what.slice(0, 300)}: ${answer.text.slice(0, 300)}`).toBe(422);
  expect(violations(refusal, answer.json)).toEqual([]);
  const places = answer.json.detail.map((each: { loc: unknown[] }) => JSON.stringify(each.loc.slice(0, loc.length)));
  expect(places, what.slice(0, 300)).toContain(JSON.stringify(loc));
}

/** everything of the first team that any list shows */
async function everything(): Promise<unknown> {
  const paths = [
    "/v1/vms",
    "/v1/snapshots",
    "/v1/volumes",
    "/v1/api-keys",
    "/v1/executions",
    `/v1/volumes/${things.volume}/files`,
  ];
  const own = [`/v1/egress/vm/${things.vm}`, `/v1/vms/${things.vm}/pty/sessions`, `/v1/shares/${things.share}`];
  return Promise.all([...paths, ...own].map(async (path) => (await ask("GET", path)).json));
}
