/**
 * The daemon's own API against schemathesis, which makes thousands of valid and invalid requests from the OpenAPI document,
 * and checks each answer against it. It needs PyPI.
 */

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { packagesOfFile } from "../../harness/pypi.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
const cli = new Cli(daemon);
const environment = packagesOfFile("schemathesis==4.32.5", "hypothesis==6.170.15");

/** operations that boot machines, end the one that the others need, replace the host's processes, or do not end */
const excluded = [
  ...["runProgram", "buildImage", "upgradeHost", "readEvents", "watchFiles", "watchFilesInSandbox"],
  ...["createSandbox", "forkSandbox", "resumeSandbox", "deleteSandbox", "stopSession", "stopSessionInSandbox"],
  ...["pauseSession", "pauseSessionInSandbox", "createSnapshot", "createSnapshotInSandbox"],
  // It has no way to make a tar.
  ...["writeArchive", "writeArchiveInSandbox"],
];
const checks = [
  ...["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"],
];
const longest = 20 * 60_000;

test("schemathesis finds no answer that differs from the document", { timeout: longest }, async (context) => {
  const python = environment.python(context);
  const { url, key } = daemon();
  expect((await cli.run(["run", "--keep", "--name", "demo", "--timeout", "1h", "--", "true"])).code).toBe(0);
  const [{ id: command, sessionId: session }] = await cli.json(["ps", "-a", "demo"]);
  // Requests about random names would all be answered with 404.
  const parameters = { "path.sandbox": "demo", "path.session": session, "path.command": command };
  const lines = Object.entries(parameters).map(([name, value]) => `"${name}" = "${value}"`);
  const cwd = await tempDir();
  await writeFile(join(cwd, "schemathesis.toml"), `[parameters]\n${lines.join("\n")}\n"query.follow" = false\n`);
  const options = [
    `--header=Authorization: Bearer ${key}`,
    `--checks=${checks.join(",")}`,
    ...["--phases=coverage,fuzzing", "--max-examples=5", "--request-timeout=20", "--seed=1", "--no-color"],
    ...excluded.map((id) => `--exclude-operation-id=${id}`),
  ];
  const args = ["-m", "schemathesis.cli", "run", ...options, `${url}/sandkeep/v1/openapi.json`];
  const outcome = await promisify(execFile)(python, args, { cwd, maxBuffer: 64 << 20, timeout: longest }).then(
    ({ stdout }) => ({ failed: false, stdout }),
    ({ stdout, stderr }) => ({ failed: true, stdout: `${stdout}${stderr}` }),
  );
  expect(outcome.failed, outcome.stdout.slice(-20_000)).toBe(false);
  expect(outcome.stdout).toMatch(/\d{4,} generated, \d{4,} passed/);
});
