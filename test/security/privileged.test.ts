/** The privileged processes beside sandboxes: each has only what it needs, and the launcher serves only the daemon. */

import { spawnSync } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FrameWriter, Type } from "../../src/protocols/guest-frames.ts";
import { openFiles } from "../../src/runtime/linux/guest-wire/channel.ts";
import { places } from "../../src/runtime/linux/machines/plan.ts";
import { compileGuest } from "../harness/guest/guest-program.ts";
import { tempDir } from "../harness/harness.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { kernelLacks } from "../runner/excuses.ts";
import { needs } from "../runner/needs.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let socket: string;

beforeAll(async () => {
  host = await withRuntime(undo);
  socket = join(places(host.directory, host.runRoot).run, "launch.sock");
});

describe("the launcher's socket", () => {
  /** connects, sends a ping, and prints how many bytes came back */
  const ping = new FrameWriter().frame(Type.ping, 1).toString("hex");
  const client = `const s = require("node:net").connect(process.argv[1], () => s.write(Buffer.from("${ping}", "hex")));
    let n = 0; s.on("data", (d) => { n += d.length; s.end(); }); s.on("error", () => {}); s.on("close", () => console.log(n));`;
  const ask = (command: string, ...args: string[]) =>
    Number(spawnSync(command, [...args, process.execPath, "-e", client, socket], { encoding: "utf8" }).stdout);

  test("answers the host's root", () => {
    expect(ask("env")).toBeGreaterThan(0);
  });

  test("answers no process that has root's uid without its capabilities", (context) => {
    needs(context, "the command setpriv");
    expect(ask("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")).toBe(0);
  });

  test("answers no root of another user namespace", () => {
    expect(ask("unshare", "--user", "--map-root-user")).toBe(0);
  });
});

describe("a worker that reads a hostile tree", () => {
  test("keeps only the capabilities for files, and can gain none", async () => {
    const { store } = places(host.directory, host.runRoot);
    const session = await openFiles(socket, "the launcher", Type.filesAt, store);
    try {
      const status = statusOf(processes().find((pid) => rootOf(pid) === store));
      // CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SYS_ADMIN (trusted attributes), MKNOD, SETFCAP
      const kept = [0, 1, 2, 3, 4, 21, 27, 31].reduce((mask, bit) => mask | (1n << BigInt(bit)), 0n);
      expect(BigInt(`0x${status.CapEff}`)).toBe(kept);
      expect(BigInt(`0x${status.CapPrm}`)).toBe(kept);
      expect(BigInt(`0x${status.CapBnd}`)).toBe(0n);
      expect(status.NoNewPrivs).toBe("1");
    } finally {
      session.close();
    }
  });

  test("reaches no file outside, runs no program and makes no connection, where the kernel has Landlock", async (context) => {
    const [inside, elsewhere] = [await tempDir(undo), await tempDir(undo)];
    const [program, outside] = [join(elsewhere, "confine_test"), join(elsewhere, "outside")];
    await compileGuest(program, ["test/confine_test", "confinement/confine", "confinement/caps"], ["-static"]);
    for (const file of [join(inside, "inside"), outside]) writeFileSync(file, "");
    copyFileSync(program, join(inside, "program"));
    const [first = "", ...lines] = spawnSync(program, [inside, outside], { encoding: "utf8" })
      .stdout.trim()
      .split("\n");
    if (Number(first.split(" ")[1]) < 4) return context.skip(kernelLacks(["Landlock for connections"]));
    expect(lines).toEqual([
      "a file inside: allowed",
      "a new file inside: allowed",
      "a device inside: allowed",
      "a program inside: EACCES",
      "a file outside: EACCES",
      "a file outside, to write: EACCES",
      "a folder outside: EACCES",
      "a new file outside: EACCES",
      "a connection: EACCES",
      "a mount: EPERM",
    ]);
  });

  test("still creates and deletes the files of its requests", async () => {
    const { store } = places(host.directory, host.runRoot);
    const session = await openFiles(socket, "the launcher", Type.filesAt, store);
    try {
      await session.mkdir("/worker/a/b", { recursive: true });
      await session.remove("/worker", { recursive: true, force: true });
      expect(readdirSync(store)).not.toContain("worker");
    } finally {
      session.close();
    }
  });
});

function processes(): number[] {
  return readdirSync("/proc").map(Number).filter(Number.isInteger);
}

function rootOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/root`);
  } catch {
    return undefined;
  }
}

function statusOf(pid: number | undefined): Record<string, string> {
  const lines = readFileSync(`/proc/${pid}/status`, "utf8").trim().split("\n");
  return Object.fromEntries(lines.map((line) => line.split(":\t").map((part) => part.trim())));
}
