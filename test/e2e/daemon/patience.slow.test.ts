/** Long silences: every client waits, in every way, for a command of six minutes without output. */

import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { cli, credentials, linkedHome, raw, sdks } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

const sixMinutes = 360;
const quiet = ["-c", `sleep ${sixMinutes}; echo done; exit 9`];

test("a client waits for a command of six minutes to its end", { timeout: 480_000 }, async () => {
  const ways = Object.values(sdks).map(async ({ Sandbox }) => {
    const sandbox = await Sandbox.create({ ...credentials(daemon()), timeout: 900_000, persistent: false });
    const detached = await sandbox.runCommand({ cmd: "sh", args: quiet, detached: true });
    const logs = (async () => (await Array.fromAsync(detached.logs())).map(({ data }) => data).join(""))();
    const [attached, waited, logged] = await Promise.all([sandbox.runCommand("sh", quiet), detached.wait(), logs]);
    expect(attached.exitCode).toBe(9);
    expect(await attached.stdout()).toBe("done\n");
    expect(attached.durationMs).toBeGreaterThan(sixMinutes * 1000 - 500);
    expect(waited.exitCode).toBe(9);
    expect(logged).toBe("done\n");
    await sandbox.delete();
  });
  const home = await linkedHome();
  const lines = (["4.5.0", "3.5.5"] as const).map(async (version) => {
    const name = `patient-${version.replaceAll(".", "-")}`;
    const result = await cli(version, daemon(), home, [
      "run",
      "--name",
      name,
      "--timeout",
      "15m",
      "--rm",
      "--",
      "sh",
      ...quiet,
    ]);
    expect(result).toMatchObject({ code: 9 });
    expect(result.stdout).toContain("done\n");
  });
  await Promise.all([...ways, ...lines]);
});

test("the daemon sends signs of life while there is no output", async () => {
  const { json } = await raw(daemon(), "POST", "/v3/sandboxes", { body: { persistent: false } });
  const commands = `/v2/sandboxes/sessions/${json.session.id}/cmd`;
  const { json: started } = await raw(daemon(), "POST", commands, { body: { command: "sleep", args: ["35"] } });
  const [waited, logged] = await Promise.all([
    raw(daemon(), "GET", `${commands}/${started.command.id}?wait=true`),
    raw(daemon(), "GET", `${commands}/${started.command.id}/logs`),
  ]);
  expect(waited.text).toMatch(/^ {2,}\{"command"/);
  expect(waited.json.command.exitCode).toBe(0);
  expect(logged.text).toMatch(/^\n{2,}$/);
  await raw(daemon(), "DELETE", `/v2/sandboxes/${json.sandbox.name}`);
});
