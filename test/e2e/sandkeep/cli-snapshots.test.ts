/** Snapshots on the command line: when they expire. */

import { beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
const cli = new Cli(daemon);
beforeEach((context) => needs(context, "the command python3"));

test("a snapshot is kept for ever, or for a time, by its id or its name", async () => {
  await cli.run(["run", "--keep", "--name", "demo", "--", "true"]);
  const id = (await cli.run(["snapshot", "create", "demo", "--name", "good", "--expires", "1h"])).stdout.trim();
  const expiry = async () => {
    const found = await cli.json(["snapshot", "ls", "demo"]);
    return found.find((each: { id: string }) => each.id === id).expiration;
  };
  expect(await expiry()).toBe(3_600_000);
  expect(await cli.run(["snapshot", "keep", "good"])).toEqual({ code: 0, stdout: `${id}\n`, stderr: "" });
  expect(await expiry()).toBe(0);
  const kept = await cli.run(["snapshot", "keep", id, "--name", "better", "--expires", "2d"]);
  expect(kept).toMatchObject({
    code: 0,
    stdout: `${id}\n`,
    stderr: expect.stringMatching(/^sandkeep: It expires in 4\dh/),
  });
  expect(await cli.json(["snapshot", "keep", "better"])).toMatchObject({ id, name: "better", expiresAt: null });
  expect((await cli.run(["snapshot", "keep", "good"])).stderr).toMatch(/^sandkeep: Cannot keep the snapshot "good": /);
  expect((await cli.run(["snapshot", "keep"])).stderr).toMatch(/the names do not fit/);
  await cli.run(["rm", "-f", "--snapshots", "demo"]);
});
