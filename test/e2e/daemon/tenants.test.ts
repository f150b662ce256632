/**
 * A second team's key against every endpoint and every id of the first team: nothing is read, nothing is changed. And
 * two teams share nothing: no names, no idempotency keys, no cursors.
 */

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { labelOf } from "../../../src/core/model/sandbox-label.ts";
import { hashKey } from "../../../src/daemon/secrets.ts";
import { openStore } from "../../../src/store/sql-store.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type RawAnswer, raw } from "../clients.ts";
import { type Endpoint, endpoints, everythingOf, examples } from "../vercel/endpoints.ts";

const daemon = daemonOfFile();
const foreign = {
  team: "team_second",
  slug: "second",
  project: "prj_second",
  key: `sk_${randomBytes(20).toString("hex")}`,
};
/** a word that occurs only in the first team's things */
const secret = "victims-secret";
/** values for the names in the paths: things of the first team */
const things: Record<string, string> = {
  name: "victim",
  drive: "victim",
  team: "team_default",
  project: "prj_default",
};

beforeAll(async () => {
  const store = await openStore({ path: join(daemon().dataDir, "sandkeep.db") });
  await store.insertTeam({ id: foreign.team, slug: foreign.slug, createdAt: Date.now() });
  const project = { id: foreign.project, uuid: crypto.randomUUID(), teamId: foreign.team, name: "default" };
  await store.insertProject({ ...project, createdAt: Date.now() });
  const key = { id: "key_second", teamId: foreign.team, name: "second", hint: "" };
  await store.insertKey({ ...key, hash: hashKey(foreign.key), createdAt: Date.now() });
  await store.close();

  const own = (method: string, path: string, body?: unknown) =>
    raw(daemon(), method, path, { ...(body !== undefined && { body }) });
  await own("POST", "/v2/sandboxes/drives/victim", {});
  const body = {
    name: "victim",
    ports: [3000],
    env: { SECRET: secret },
    tags: { word: secret },
    mounts: { "/data": { drive: "victim" } },
  };
  const made = await own("POST", "/v3/sandboxes", body);
  const first = `/v2/sandboxes/sessions/${made.json.session.id}`;
  await own("POST", `${first}/cmd`, { command: "sh", args: ["-c", `echo ${secret} > file`], wait: true });
  things.snapshotId = (await own("POST", `${first}/snapshot`)).json.snapshot.id;
  const resumed = await own("GET", "/v2/sandboxes/victim?resume=true");
  things.sessionId = resumed.json.session.id;
  const command = { command: "sh", args: ["-c", `echo ${secret}; exec sleep 600`] };
  things.commandId = (await own("POST", `/v2/sandboxes/sessions/${things.sessionId}/cmd`, command)).json.command.id;
});

interface Scope {
  search: string;
  project?: string;
}

/** the scopes that the second team can name: none, its own, and the first team's */
const scopes: Record<string, Scope> = {
  "no scope": { search: "" },
  "its own scope": { search: `teamId=${foreign.team}`, project: foreign.project },
  "its own scope, by names": { search: `slug=${foreign.slug}`, project: "default" },
  "the other's team": { search: "teamId=team_default", project: foreign.project },
  "the other's slug": { search: "slug=default" },
  "the other's project": { search: "", project: "prj_default" },
  "the other's team and project": { search: "teamId=team_default", project: "prj_default" },
};

describe.each(Object.entries(scopes))("with %s", (name, scope) => {
  test.each(endpoints.map((endpoint) => ({ ...endpoint, title: `${endpoint.method} ${endpoint.path}` })))(
    "$title reveals nothing and changes nothing",
    async (endpoint) => {
      const before = await everything();
      const answers = await Promise.all(requests(endpoint, scope));
      for (const answer of answers) {
        expect(answer.text).not.toContain(secret);
        const shown = answer.text.slice(0, 300);
        if (isAboutOneself(endpoint, name)) expect(answer.status, shown).toBeLessThan(500);
        else expect([403, 404], shown).toContain(answer.status);
      }
      expect(await everything()).toEqual(before);
    },
  );
});

describe("through another API", () => {
  test("nothing of the first team is seen or changed", async () => {
    const { id } = (await raw(daemon(), "GET", "/v2/sandboxes/victim")).json.sandbox;
    const headers = { "x-api-key": foreign.key };
    const label = labelOf(String(id));
    const sandboxes = `/sandboxes/${label}`;
    const before = await everything();
    const requests: [string, string, object?][] = [
      ["GET", sandboxes],
      ["DELETE", sandboxes],
      ["POST", `${sandboxes}/connect`, { timeout: 5 }],
      ["POST", `/v2${sandboxes}/connect`, {}],
      ["POST", `${sandboxes}/resume`, {}],
      ["POST", `${sandboxes}/pause`, {}],
      ["POST", `${sandboxes}/timeout`, { timeout: 1 }],
      ["POST", `${sandboxes}/refreshes`, {}],
      ["POST", `${sandboxes}/fork`, {}],
      ["POST", `${sandboxes}/snapshots`, {}],
      ["PUT", `${sandboxes}/network`, {}],
      ["GET", `${sandboxes}/metrics`],
      ["GET", `${sandboxes}/logs`],
      ["GET", `/v2${sandboxes}/logs`],
      ["DELETE", `/templates/${things.snapshotId}`],
      ["POST", "/v2/sandboxes", { templateID: "base", volumeMounts: [{ name: "victim", path: "/data" }] }],
    ];
    for (const [method, path, body] of requests) {
      const { status, text } = await raw(daemon(), method, path, { headers, key: foreign.key, ...(body && { body }) });
      expect([method, path, status, text.includes(secret)]).toEqual([method, path, 404, false]);
    }
    const body = { templateID: things.snapshotId };
    expect((await raw(daemon(), "POST", "/v2/sandboxes", { headers, key: foreign.key, body })).status).toBe(404);
    // The second team has things of its own by now, so the lists need not be empty.
    for (const path of ["/v2/sandboxes", "/sandboxes", "/snapshots", "/volumes"]) {
      const { status, text } = await raw(daemon(), "GET", path, { headers, key: foreign.key });
      expect([path, status]).toEqual([path, 200]);
      for (const ofTheFirst of [label, '"victim"', things.snapshotId]) expect(text).not.toContain(ofTheFirst);
    }
    expect(await everything()).toEqual(before);
  });
});

describe("what is named in a body", () => {
  const create = (body: object) => raw(daemon(), "POST", "/v3/sandboxes", { key: foreign.key, body });

  test("is searched only among the team's own things", async () => {
    const mounts = { "/data": { drive: "victim", mode: "snapshot" } };
    const id = (await raw(daemon(), "GET", "/v2/sandboxes/drives/victim")).json.drive.id;
    expect((await raw(daemon(), "GET", `/v2/sandboxes/drives/${id}`, { key: foreign.key })).status).toBe(404);
    const refused = await Promise.all([
      create({ source: { type: "snapshot", snapshotId: things.snapshotId } }),
      raw(daemon(), "POST", "/v1/sandboxes", {
        key: foreign.key,
        body: { source: { type: "snapshot", snapshotId: things.snapshotId } },
      }),
      create({ mounts }),
      create({ projectId: "prj_default" }),
      raw(daemon(), "POST", "/v2/sandboxes/drives/new", { key: foreign.key, body: { projectId: "prj_default" } }),
    ]);
    expect(refused.map(({ status }) => status)).toEqual([404, 404, 404, 403, 403]);
    const own = await create({ name: "own" });
    const changes = [{ currentSnapshotId: things.snapshotId }, { mounts }];
    for (const body of changes) {
      expect((await raw(daemon(), "PATCH", "/v2/sandboxes/own", { key: foreign.key, body })).status).toBe(404);
    }
    // A command of another team under the team's own session.
    for (const session of [`/v2/sandboxes/sessions/${own.json.session.id}`, `/v1/sandboxes/${own.json.session.id}`]) {
      const path = `${session}/cmd/${things.commandId}`;
      for (const rest of ["", "/logs", "?wait=true"]) {
        expect((await raw(daemon(), "GET", path + rest, { key: foreign.key })).status).toBe(404);
      }
      const kill = session.startsWith("/v1") ? `${session}/${things.commandId}/kill` : `${path}/kill`;
      expect((await raw(daemon(), "POST", kill, { key: foreign.key, body: { signal: 9 } })).status).toBe(404);
    }
    await raw(daemon(), "DELETE", "/v2/sandboxes/own", { key: foreign.key });
  });

  test("may have the same name as in another team", async () => {
    const own = await create({ name: "victim" });
    expect(own.status).toBe(200);
    expect(own.json.session.id).not.toBe(things.sessionId);
    expect((await raw(daemon(), "GET", "/v2/sandboxes/victim")).json.session.id).toBe(things.sessionId);
    const drive = await raw(daemon(), "POST", "/v2/sandboxes/drives/victim", { key: foreign.key, body: {} });
    expect(drive.status).toBe(201);
    expect((await raw(daemon(), "DELETE", "/v2/sandboxes/victim", { key: foreign.key })).status).toBe(200);
    expect((await raw(daemon(), "DELETE", "/v2/sandboxes/drives/victim", { key: foreign.key })).status).toBe(200);
    expect((await raw(daemon(), "GET", "/v2/sandboxes/victim")).status).toBe(200);
  });
});

test("what a team mounts over /etc changes no sandbox of another team", async () => {
  const run = (key: string, sandbox: object, line: string) => {
    const program = { command: "sh", args: ["-c", line] };
    return raw(daemon(), "POST", "/sandkeep/v1/runs", { key, body: { sandbox, program } });
  };
  expect((await raw(daemon(), "PUT", "/sandkeep/v1/drives/etc", { key: foreign.key, body: {} })).status).toBe(200);
  const fill =
    "sudo cp -a /etc/. /mnt && sudo install -d -o 1000 -g 1000 /mnt/work && echo evil:x:0:0::/: | sudo tee -a /mnt/passwd";
  const filled = await run(foreign.key, { mounts: { "/mnt": { drive: "etc" } } }, fill);
  expect(filled.text).toContain('"exitCode":0');
  const session = { user: "user", cwd: "/etc/work" };
  const over = await run(foreign.key, { ...session, mounts: { "/etc": { drive: "etc" } } }, "grep -c evil /etc/passwd");
  expect(over.text).toContain('"data":"1\\n"');
  const other = await run(daemon().key, session, "echo $(pwd) $(grep -c evil /etc/passwd)");
  expect(other.text).toContain('"data":"/etc/work 0\\n"');
});

test("an idempotency key counts only within one team", async () => {
  const headers = { "idempotency-key": "shared-by-chance" };
  const create = (key: string) => raw(daemon(), "POST", "/v3/sandboxes", { key, headers, body: {} });
  const [ours, theirs] = [await create(daemon().key), await create(foreign.key)];
  expect(theirs.json.sandbox.name).not.toBe(ours.json.sandbox.name);
  expect(theirs.json.session.projectId).toBe(foreign.project);
  await raw(daemon(), "DELETE", `/v2/sandboxes/${ours.json.sandbox.name}`);
  await raw(daemon(), "DELETE", `/v2/sandboxes/${theirs.json.sandbox.name}`, { key: foreign.key });
});

test("a cursor does not lead into another team's list", async () => {
  for (const name of ["page-1", "page-2"]) await raw(daemon(), "POST", "/v3/sandboxes", { body: { name } });
  const { json } = await raw(daemon(), "GET", "/v2/sandboxes?limit=1");
  const next = await raw(daemon(), "GET", `/v2/sandboxes?limit=1&cursor=${encodeURIComponent(json.pagination.next)}`, {
    key: foreign.key,
  });
  expect(next.json.sandboxes ?? []).toEqual([]);
  const first = await raw(daemon(), "GET", "/v1/sandboxes?limit=1");
  for (const bound of ["until", "since"]) {
    const { json: page } = await raw(daemon(), "GET", `/v1/sandboxes?${bound}=${first.json.pagination.next}`, {
      key: foreign.key,
    });
    expect(page.sandboxes.filter((each: { projectId: string }) => each.projectId !== foreign.project)).toEqual([]);
  }
  for (const name of ["page-1", "page-2"]) await raw(daemon(), "DELETE", `/v2/sandboxes/${name}`);
});

test("a caller's user and teams are its own", async () => {
  const ask = (path: string) => raw(daemon(), "GET", path, { key: foreign.key });
  expect((await ask("/v2/user")).json.user).toMatchObject({ defaultTeamId: foreign.team, username: foreign.slug });
  expect((await ask("/v2/teams")).json.teams.map(({ id }: { id: string }) => id)).toEqual([foreign.team]);
  expect((await ask("/v2/projects/default")).json.id).toBe(foreign.project);
});

test.each(endpoints.map(({ method, path }) => [method, path]))("%s %s wants a key", async (method = "", path = "") => {
  for (const authorization of [
    "",
    "Bearer",
    "Bearer ",
    "Bearer x",
    "Basic eDp5",
    `bearer ${foreign.key}x`,
    foreign.key,
  ]) {
    const answer = await raw(daemon(), method, `/api${pathOf(path)}`, { headers: { authorization } });
    expect([answer.status, answer.json?.error?.code], authorization).toEqual([401, "unauthorized"]);
  }
});

/** the name of the project in each kind of query; the others have none */
const projectParameter: Partial<Record<NonNullable<Endpoint["query"]>, string>> = {
  sandboxQuery: "projectId",
  getQuery: "projectId",
  deleteQuery: "projectId",
  drivesQuery: "projectId",
  sandboxesQuery: "project",
  historyQuery: "project",
  treeQuery: "project",
  v1ListQuery: "project",
};

const bodiesWithProject = ["createBody", "v1CreateBody", "driveBody"];

/** the requests that try an endpoint: with each example of a body that it reads */
function requests({ method, path, query, body }: Endpoint, scope: Scope): Promise<RawAnswer>[] {
  const parameter = query && projectParameter[query];
  const project = parameter && scope.project !== undefined ? `&${parameter}=${scope.project}` : "";
  const tree = query === "treeQuery" ? `&snapshotId=${things.snapshotId}` : "";
  const bodies = body === undefined ? [undefined] : examples[body].map((example) => aimed(example, body, scope));
  return bodies.map((each) =>
    raw(daemon(), method, `${pathOf(path)}?${scope.search}${project}${tree}`, {
      key: foreign.key,
      ...(each !== undefined && { body: each }),
    }),
  );
}

/** the example with the first team's snapshot and drive where it names one */
function aimed(example: object, schema: NonNullable<Endpoint["body"]>, { project }: Scope): object {
  const text = JSON.stringify(example)
    .replaceAll("snap_1", things.snapshotId ?? "")
    .replaceAll('"drive":"drive"', '"drive":"victim"');
  const namesProject = bodiesWithProject.includes(schema);
  return { ...JSON.parse(text), ...(namesProject && { projectId: project ?? "prj_default" }) };
}

/** endpoints about the caller itself: its user, its lists, and creating or deleting its own things */
function isAboutOneself({ method, path, query, body }: Endpoint, name: string): boolean {
  if (path === "/v2/user") return true;
  const namesProject = (query && projectParameter[query]) || (body && bodiesWithProject.includes(body));
  const isOwn = !name.startsWith("the other's") || (name === "the other's project" && !namesProject);
  const open = [
    ...["GET /v2/sandboxes", "GET /v2/sandboxes/sessions", "GET /v2/sandboxes/snapshots", "GET /v2/sandboxes/drives"],
    ...["POST /v2/sandboxes", "POST /v2/sandboxes/drives/:drive", "DELETE /v2/sandboxes/drives/:drive"],
    // By now the caller has a drive of that name, too.
    ...["GET /v2/sandboxes/drives/:drive", "POST /v2/sandboxes/drives/:drive/fork"],
    ...["GET /v1/sandboxes", "POST /v1/sandboxes", "GET /v1/sandboxes/snapshots"],
    ...["GET /v2/teams", "POST /v11/projects"],
  ];
  return isOwn && open.includes(`${method} ${path}`);
}

function pathOf(path: string): string {
  return path.replace(/:(\w+)/g, (_, name: string) => things[name] ?? "");
}

/** everything of the first team, with its state */
function everything(): Promise<unknown> {
  return everythingOf(daemon(), things.sessionId, [
    `/v2/sandboxes/sessions/${things.sessionId}/cmd/${things.commandId}`,
    "/v2/sandboxes/victim",
  ]);
}
