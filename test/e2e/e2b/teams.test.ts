/** Teams on E2B's API: what another team's key reaches, names with a team, and the team of a key. */

import { Sandbox, Secret, Template, Volume } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { raw } from "../clients.ts";
import { secondTeam, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

const patient = { timeout: 60_000 };
const foreign = secondTeam(daemon);

function ask(method: string, path: string, body?: unknown, key = daemon().key) {
  return raw(daemon(), method, path, { key, headers: { "x-api-key": key }, ...(body !== undefined && { body }) });
}

test("a key of another team reads and changes nothing of a team", async () => {
  const { templateId, buildId } = await Template.build(Template().fromImage("base"), "mine");
  const secret = await Secret.create("mine", "value-of-mine");
  const volume = await Volume.create("mine");
  const sandbox = await Sandbox.create({ volumeMounts: { "/mnt": volume } });
  const { snapshotId } = await sandbox.createSnapshot({ name: "mine-too" });
  const hash = "a".repeat(64);
  // Whatever its name, its id or the name of its image: none of them leads to it.
  const names = [
    ...["mine", templateId, "default/mine", "team_default/mine", snapshotId, "mine-too"],
    ...[`templates/${templateId}:${buildId}`, `~team_default~templates/${templateId}:${buildId}`],
  ];
  for (const templateID of names) {
    const made = await ask("POST", "/v2/sandboxes", { templateID }, foreign);
    expect([templateID, made.status, made.json.code]).toEqual([templateID, 404, 404]);
    for (const body of [{ fromTemplate: templateID }, { fromImage: templateID }]) {
      const { templateID: id, buildID } = (await ask("POST", "/v3/templates", { name: "theirs" }, foreign)).json;
      const started = await ask("POST", `/v2/templates/${id}/builds/${buildID}`, body, foreign);
      const status = async () =>
        (await ask("GET", `/templates/${id}/builds/${buildID}/status`, undefined, foreign)).json;
      if (started.status === 202) await expect.poll(async () => (await status()).status, patient).toBe("error");
      else expect([body, started.status]).toEqual([body, 404]);
    }
  }
  const calls: [string, string, unknown?][] = [
    ["GET", `/templates/${templateId}`],
    ["GET", `/templates/${templateId}/tags`],
    ["GET", "/templates/aliases/mine"],
    ["GET", `/templates/${templateId}/files/${hash}`],
    ["GET", `/templates/${templateId}/builds/${buildId}/status`],
    ["GET", `/templates/${templateId}/builds/${buildId}/logs`],
    ["POST", `/v2/templates/${templateId}/builds/${buildId}`, {}],
    ["PATCH", `/v2/templates/${templateId}`, { public: true }],
    ["PATCH", `/templates/${templateId}`, { public: true }],
    ["DELETE", `/templates/${templateId}`],
    ["POST", "/templates/tags", { target: "mine", tags: ["x"] }],
    ["DELETE", "/templates/tags", { name: "mine", tags: ["default"] }],
    ["GET", `/secrets/${secret.secretId}`],
    ["POST", `/secrets/${secret.secretId}`, { value: "other" }],
    ["DELETE", "/secrets/mine"],
    ["GET", `/volumes/${volume.volumeId}`],
    ["DELETE", `/volumes/${volume.volumeId}`],
    ["POST", "/v2/sandboxes", { templateID: "base", volumeMounts: [{ name: "mine", path: "/mnt" }] }],
    ["DELETE", `/templates/${snapshotId}`],
    ...["", "/logs", "/metrics"].map((rest): [string, string] => ["GET", `/sandboxes/${sandbox.sandboxId}${rest}`]),
    ...["/pause", "/resume", "/connect", "/snapshots", "/fork"].map((rest): [string, string, unknown] => {
      return ["POST", `/sandboxes/${sandbox.sandboxId}${rest}`, {}];
    }),
    ["POST", `/sandboxes/${sandbox.sandboxId}/timeout`, { timeout: 1 }],
    ["PUT", `/sandboxes/${sandbox.sandboxId}/network`, {}],
    ["DELETE", `/sandboxes/${sandbox.sandboxId}`],
  ];
  for (const [method, path, body] of calls) {
    const answer = await ask(method, path, body, foreign);
    expect([method, path, answer.status, answer.json?.code]).toEqual([method, path, 404, 404]);
  }
  for (const path of ["/secrets", "/volumes", "/snapshots", "/sandboxes", "/v2/sandboxes"]) {
    expect((await ask("GET", path, undefined, foreign)).json).toEqual([]);
  }
  for (const path of ["/templates", "/v2/templates"]) {
    expect((await ask("GET", path, undefined, foreign)).json).toMatchObject([{ aliases: ["theirs"] }]);
  }
  await sandbox.kill();
  expect((await ask("GET", "/templates?teamID=team_default", undefined, foreign)).status).toBe(403);
  for (const path of ["/v2/templates", "/v3/templates"]) {
    for (const body of [{ name: "mine", teamID: "team_default" }, { name: "default/mine" }, { name: "none/mine" }]) {
      expect((await ask("POST", path, body, foreign)).status).toBe(403);
    }
  }
  expect((await ask("GET", `/templates/${templateId}`)).json).toMatchObject({ public: false, names: ["default/mine"] });
  // The address of an upload is for one hash, and worth nothing when it is changed.
  const { json } = await ask("GET", `/templates/${templateId}/files/${hash}`);
  expect(json).toMatchObject({ present: false });
  for (const url of [
    json.url.replace(hash, "b".repeat(64)),
    json.url.replace(/\/\d+\//, "/9999999999/"),
    `${json.url}0`,
  ]) {
    expect((await fetch(url, { method: "PUT", body: "x" })).status).toBe(401);
  }
  expect((await fetch(json.url, { method: "PUT", body: "x" })).status).toBe(200);
  expect((await ask("GET", `/templates/${templateId}/files/${hash}`)).json).toMatchObject({ present: true });
});

test("a name may have the team before it, and the builds of a template come in pages", async () => {
  const request = (body: object) => ask("POST", "/v3/templates", body);
  const requested: string[] = [];
  for (const name of ["paged", "default/paged:v2", "Default/Paged"]) {
    const { status, json } = await request({ name, teamID: "team_default" });
    expect([status, json]).toEqual([202, expect.objectContaining({ aliases: ["paged"], names: ["default/paged"] })]);
    requested.unshift(json.buildID);
  }
  const read: string[] = [];
  for (let path = "/templates/default%2Fpaged?limit=2"; path !== ""; ) {
    const { json, headers } = await ask("GET", path);
    expect([json.names, json.builds.length <= 2]).toEqual([["default/paged"], true]);
    read.push(...json.builds.map(({ buildID }: { buildID: string }) => buildID));
    const next = headers.get("x-next-token");
    path = next === null ? "" : `/templates/paged?limit=2&nextToken=${next}`;
  }
  expect(read.toSorted()).toEqual(requested.toSorted());
  expect((await ask("GET", "/templates/paged?nextToken=none")).status).toBe(400);
  expect((await ask("DELETE", "/templates/paged")).status).toBe(204);
});

test("a key finds its team, by either header", async () => {
  const team = { teamID: "team_default", name: "default", apiKey: daemon().key, isDefault: true };
  expect(await ask("GET", "/teams")).toMatchObject({ status: 200, json: [team] });
  const byToken = await raw(daemon(), "GET", "/teams", { headers: { authorization: `Bearer ${foreign}` } });
  expect(byToken.json).toEqual([{ teamID: "team_second", name: "second", apiKey: foreign, isDefault: true }]);
});

test("the token of a volume opens that volume alone, and every route of its files refuses bad input", async () => {
  const mine = await Volume.create("mine-alone");
  await mine.writeFile("/kept", "kept");
  const theirs = (await ask("POST", "/volumes", { name: "theirs" }, foreign)).json;
  const content = (id: string, token: string, [method, path, body]: [string, string, unknown?]) =>
    raw(daemon(), method, `/volumecontent/${id}${path}`, {
      key: "",
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body }),
    });
  const calls: [string, string, unknown?][] = [
    ["GET", "/path?path=/kept"],
    ["PATCH", "/path?path=/kept", { mode: 0o600 }],
    ["GET", "/dir?path=/"],
    ["POST", "/dir?path=/new"],
    ["GET", "/file?path=/kept"],
    ["PUT", "/file?path=/kept&force=true", "other"],
    ["DELETE", "/path?path=/kept"],
  ];
  for (const call of calls) {
    const answer = await content(mine.volumeId, theirs.token, call);
    expect([call, answer.status, answer.json]).toEqual([
      call,
      401,
      { code: "401", message: expect.stringContaining("token") },
    ]);
  }
  const bad: [string, string, unknown?][] = [
    ...["/path", "/dir", "/file"].flatMap((path): [string, string][] =>
      ["", "?path=", "?path=/kept&more=1", `?path=${"a".repeat(5000)}`].map((query) => ["GET", path + query]),
    ),
    ...["depth=0", "depth=33", "depth=x"].map((query): [string, string] => ["GET", `/dir?path=/&${query}`]),
    ...[{ mode: 0o10000 }, { uid: -1 }, { gid: "0" }, { other: 1 }, "{", "[]"].map(
      (body): [string, string, unknown] => ["PATCH", "/path?path=/kept", body],
    ),
    ...["", "?path=/a&uid=x", "?path=/a&mode=99999", "?path=/a&force=yes"].flatMap((query): [string, string][] => [
      ["POST", `/dir${query}`],
      ["PUT", `/file${query}`],
    ]),
    ["DELETE", "/path"],
    ["DELETE", "/path?path=/"],
  ];
  for (const call of bad) {
    const answer = await content(mine.volumeId, mine.token, call);
    expect([call, answer.status, answer.json?.code]).toEqual([call, 400, "400"]);
  }
  expect(await mine.readFile("/kept")).toBe("kept");
  expect((await mine.list("/")).map(({ path, mode }) => [path, mode])).toEqual([["/kept", 0o644]]);
});
