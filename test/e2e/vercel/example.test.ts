/** The examples run as their readers would run them. */

import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { root } from "../../harness/harness.ts";

const daemon = daemonOfFile();

test("examples/vercel-sdk.ts works after the one line that its reader pastes", () => {
  const script = 'eval "$(bin/sandkeep env vercel)" && exec "$0" examples/vercel-sdk.ts';
  const { stdout, stderr, status } = spawnSync("sh", ["-c", script, process.execPath], {
    cwd: root,
    env: { PATH: process.env.PATH, SANDKEEP_URL: daemon().url, SANDKEEP_API_KEY: daemon().key },
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  expect(
    stdout
      .replace(/^sandbox-\w+/, "NAME")
      .replace(/v\d+\.\d+\.\d+/, "VERSION")
      .split("\n"),
  ).toEqual([
    "NAME is running",
    "it has Node VERSION",
    'it says "hello from inside"',
    "it is stopped and kept as a snapshot",
    "it is back with page.txt and server.cjs",
    "",
  ]);
  expect(status).toBe(0);
});

test("examples/instavm.sh works with a key and an address", () => {
  const { stdout, stderr, status } = spawnSync("sh", ["examples/instavm.sh"], {
    cwd: root,
    env: { PATH: process.env.PATH, SANDKEEP_URL: daemon().url, SANDKEEP_API_KEY: daemon().key },
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  expect(stdout.split("\n")).toEqual([
    "Python says: 42",
    "the file says: hello from outside",
    "found by its metadata, it is active",
    "after a kill, it is killed",
    "",
  ]);
  expect(status).toBe(0);
});
