/** `npm start`, as a person or a service manager runs it in a clone: its output, and that it ends with its daemon. */

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { afterAll, expect, test } from "vitest";
import { startDaemon } from "../../harness/daemon.ts";
import { eventually, root, tempDir } from "../../harness/harness.ts";
import { needs } from "../../runner/needs.ts";
import { hostNpm } from "./installed.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

test("a first start prints its progress while it takes seconds, and SIGTERM to npm ends the daemon", async (context) => {
  needs(context, "root", "the guest binary");
  const { path } = hostNpm();
  const daemon = await startDaemon(undo, {}, { command: ["npm", "start"], path });
  const line = `eval "$(${root}/bin/sandkeep env vercel --url ${daemon.url} --data-dir ${daemon.dataDir})"`;
  await eventually("the line to paste is printed", () => daemon.said().includes(line));
  expect(daemon.said()).toContain(`Making the store for sandboxes in ${daemon.dataDir} …\n`);
  expect(daemon.said()).toContain("Making the default image from this host's /usr …\n");
  await daemon.stop();
  expect(daemon.said()).toContain("Stopping; sandboxes keep running …\n");
  // npm is gone, and so is what it started.
  await expect(fetch(`${daemon.url}/health`)).rejects.toThrow("fetch failed");
});

test("Ctrl-C during the first start leaves no mount and no half-made store", async (context) => {
  needs(context, "root", "the guest binary");
  const [dataDir, runDir] = [await tempDir(undo), await mkdtemp("/run/sandkeep-e2e-")];
  undo.defer(() => rm(runDir, { recursive: true, force: true }));
  const env = { ...process.env, SANDKEEP_DATA_DIR: dataDir, SANDKEEP_RUN_DIR: runDir, SANDKEEP_PORT: "0" };
  const child = spawn(`${root}/bin/sandkeep`, ["serve", "--stop-all"], { env, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    if (!said.includes("Making the store") && text.includes("Making the store")) child.kill("SIGINT");
    said += text;
  });
  const [code] = await once(child, "close");
  expect(said).toContain("Stopping all sandboxes …\n");
  expect(said).not.toContain("sandkeep env");
  expect(code).toBe(0);
  expect(readFileSync("/proc/self/mounts", "utf8")).not.toContain(dataDir);
});

test("without root npm start says so before it installs or compiles anything", (context) => {
  needs(context, "root", "the command setpriv");
  const asNobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
  const args = [...asNobody, process.execPath, `${root}/scripts/bootstrap.mjs`];
  expect(spawnSync("setpriv", args, { encoding: "utf8" })).toMatchObject({
    status: 1,
    stdout: "",
    stderr:
      "sandkeep: Cannot serve: making sandboxes needs root\nhint: sudo npm start, with the flags that you gave after --\n",
  });
});

test.for([
  ["serve", "making sandboxes needs root", '; "doctor" instead of "serve" says what else is missing'],
  ["recover", "the data directory is root's", ""],
])("without root, %s prints a sentence and not a stack trace", ([command = "", why, advice], context) => {
  needs(context, "root", "the command setpriv");
  const { PATH } = process.env;
  const asNobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", `${root}/bin/sandkeep`, command];
  const { status, stdout, stderr } = spawnSync("setpriv", asNobody, {
    env: { PATH, HOME: "/nonexistent" },
    encoding: "utf8",
  });
  expect({ status, stdout, stderr }).toEqual({
    status: 1,
    stdout: "",
    stderr: `sandkeep: Cannot ${command}: ${why}\nhint: sudo ${root}/bin/sandkeep ${command}${advice}\n`,
  });
});
