/** Tests of which image commands need a daemon, and which files of a directory a build sends. */

import { once } from "node:events";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { extract } from "tar-stream";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { packContext } from "../client/build-context.ts";
import { CliError } from "../errors.ts";
import { imageBuildCommand, needsDaemon } from "./image-build.ts";

const context = {
  ...{ environment: { SANDKEEP_API_KEY: "sk_of_a_test_only" }, dataDirs: [] },
  ...{ input: process.stdin, output: process.stdout, print: () => {}, progress: () => {} },
  ...{ errors: process.stderr, warn: () => {}, write: async () => {}, now: () => 0 },
};

test("a snapshot may be given by its name", async () => {
  const server = createServer(({ method, url }, response) => {
    const { pathname, searchParams } = new URL(url ?? "", "http://daemon.test");
    const isMine = pathname.endsWith("/snapshots") && searchParams.get("name") === "mine";
    const found = { snapshots: isMine ? [{ id: "snap_1" }] : [] };
    response.end(JSON.stringify(method === "GET" ? found : { image: { name: "trained", digest: pathname } }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const printed: string[] = [];
  const args = ["from-snapshot", "mine", "trained", "--url", `http://127.0.0.1:${port}`];
  await imageBuildCommand(args, { ...context, print: (line) => void printed.push(line) });
  expect(printed).toEqual(["trained  /sandkeep/v1/snapshots/snap_1/image"]);
});

test("a build whose daemon goes away ends with a sentence", async () => {
  const server = createServer((request, response) => {
    request.resume();
    response.write('{"type":"waiting"}\n', () => response.destroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const directory = await tempDir();
  await writeFile(join(directory, "Dockerfile"), "FROM host");
  await expect(imageBuildCommand(["build", directory, "--url", url], context)).rejects.toThrow(
    new CliError(`Cannot build the image: the connection to "${url}" is lost`),
  );
});

test("a directory without a Dockerfile is refused with a sentence", async () => {
  const directory = await tempDir();
  await expect(imageBuildCommand(["build", "-t", "x", directory], context)).rejects.toThrow(
    `Cannot build from "${directory}": it has no Dockerfile\nhint: -f names another file`,
  );
  const other = join(directory, "Other");
  await expect(imageBuildCommand(["build", "-f", other, directory], context)).rejects.toThrow(
    `Cannot read the Dockerfile "${other}": there is no such file`,
  );
});

test("only a build of Debian works without a daemon", () => {
  for (const line of [
    "build .",
    "build -t debian .",
    "build --network none ./debian",
    "export x",
    "from-snapshot a b",
  ]) {
    expect([line, needsDaemon(line.split(" "))]).toEqual([line, true]);
  }
  for (const line of [
    "build debian",
    "build code-interpreter",
    "build --suite trixie debian --no-node",
    "list",
    "import -",
    "delete export",
  ]) {
    expect([line, needsDaemon(line.split(" "))]).toEqual([line, false]);
  }
});

test("a directory is sent without ignored files, but always with the Dockerfile", async () => {
  const directory = await tempDir();
  await mkdir(join(directory, "logs/keep"), { recursive: true });
  for (const name of ["Dockerfile", "a", "logs/x", "logs/keep/y"]) await writeFile(join(directory, name), name);
  await symlink("/etc/passwd", join(directory, "link"));
  await writeFile(join(directory, ".dockerignore"), "logs\nDockerfile\n.dockerignore\n!logs/keep\n");
  const parser = extract();
  parser.end(
    Buffer.concat(await Array.fromAsync(packContext({ directory, file: "Dockerfile", extra: { more: "text" } }))),
  );
  const members: string[] = [];
  for await (const member of parser) {
    const text = Buffer.concat(await Array.fromAsync(member as AsyncIterable<Buffer>)).toString();
    members.push(`${member.header.name} ${member.header.type} ${member.header.linkname ?? text}`.trim());
  }
  expect(members.filter((line) => !line.startsWith(".dockerignore"))).toEqual([
    "more file text",
    "Dockerfile file Dockerfile",
    "a file a",
    "link symlink /etc/passwd",
    "logs/keep directory",
    "logs/keep/y file logs/keep/y",
  ]);
  expect(members.some((line) => line.startsWith(".dockerignore file"))).toBe(true);
});
