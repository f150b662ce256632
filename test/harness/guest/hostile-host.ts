/**
 * A runtime under attack: raw clients on the sockets of its launcher and of one agent. After each test the same
 * processes must still serve everything, and nothing new may be left.
 *
 * The guest is the one with sanitisers, so that a read past the end of a frame is detected as well.
 */

import { readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { Machine } from "../../../src/core/ports/runtime.ts";
import { FrameReader, FrameWriter, Type, wireVersion } from "../../../src/protocols/guest-frames.ts";
import { places } from "../../../src/runtime/linux/machines/plan.ts";
import { has, needs } from "../../runner/needs.ts";
import { eventually } from "../harness.ts";
import { stayersOf } from "../linux-host.ts";
import { type TestRuntime, withRuntime } from "../machine.ts";
import { RawClient } from "./raw-client.ts";
import { sanitizedGuest } from "./sanitized-guest.ts";

export interface HostileHost extends TestRuntime {
  /** the machine whose agent is attacked, and another one that must not be affected */
  victim: Machine;
  bystander: Machine;
  /** the victim's name in the launcher */
  name: string;
  /** sockets */
  launcher: string;
  agent: string;
  /** a folder of the test beside the runtime's, on a tmpfs */
  scratch: string;
  /** the processes that serve the sockets */
  pids: { launcher: number; agent: number };
}

/** makes it for the tests of a file; returns a function for use in tests */
export function useHostileHost(): () => HostileHost {
  const undo = new AsyncDisposableStack();
  let host: HostileHost | undefined;
  let before: Footprint | undefined;
  let reports = async (): Promise<string[]> => [];
  const life = new AsyncDisposableStack();

  beforeAll(async () => {
    if (!has("root")) return;
    const guest = await sanitizedGuest(undo);
    reports = guest.reports;
    const runRoot = await mkdtemp("/run/sandkeep-test-");
    undo.defer(() => rm(runRoot, { recursive: true, force: true }));
    const test = await withRuntime(life, { runRoot, guest: guest.binary, egressEnv: guest.env });
    host = await prepareHost(test, runRoot);
    await serves(host);
    before = footprint(host);
  });

  beforeEach((context) => needs(context, "root"));

  afterEach(async () => {
    if (!host) return;
    const here = host;
    await serves(here);
    expect(await pidOfLauncher(here.launcher)).toBe(here.pids.launcher);
    // released resources may take a moment to go away
    await eventually("things as they were before", async () => {
      expect(await here.runtime.reconcile()).toEqual([]);
      expect(footprint(here)).toEqual(before);
      return true;
    });
  });

  afterAll(async () => {
    await life.disposeAsync();
    expect(await reports()).toEqual([]);
    await undo.disposeAsync();
  });

  return () => {
    if (!host) throw new Error("Cannot use the host: it is made before the first test");
    return host;
  };
}

async function prepareHost(test: TestRuntime, runRoot: string): Promise<HostileHost> {
  const at = places(test.directory, runRoot);
  const launcher = join(at.run, "launch.sock");
  const scratch = join(runRoot, "scratch");
  await mkdir(scratch);
  const victim = await test.boot();
  const [socket = ""] = readdirSync(at.sockets);
  const name = socket.slice(0, -".sock".length);
  const bystander = await test.boot();
  const pids = { launcher: await pidOfLauncher(launcher), agent: await pidOfMachine(launcher, name) };
  return { ...test, victim, bystander, name, launcher, agent: join(at.sockets, socket), scratch, pids };
}

/** the resources of each process, besides the few processes that stay and their descriptors */
type Footprint = Record<"launcher" | "agent", { descriptors: number; children: number }>;

function footprint({ pids }: HostileHost): Footprint {
  const of = (pid: number) => {
    const { length: stayers } = stayersOf(pid);
    return { descriptors: readdirSync(`/proc/${pid}/fd`).length - stayers, children: childrenOf(pid) - stayers };
  };
  return { launcher: of(pids.launcher), agent: of(pids.agent) };
}

function childrenOf(pid: number): number {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .split(" ")
    .filter((child) => child !== "").length;
}

/** memory in use, in bytes */
export function residentBytes(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kilobytes) * 1024;
}

let commands = 0;

async function serves(host: HostileHost): Promise<void> {
  for (const machine of [host.victim, host.bystander]) {
    const command = await machine.exec({ id: `alive-${++commands}`, argv: ["echo", "alive"], cwd: "/" });
    expect((await command.exited).code).toBe(0);
  }
}

async function pidOfLauncher(socket: string): Promise<number> {
  using client = await RawClient.open(socket);
  const answer = new FrameReader((await client.ask(Type.hello, new FrameWriter().u32(wireVersion))).payload);
  answer.u32();
  return answer.u32();
}

async function pidOfMachine(socket: string, wanted: string): Promise<number> {
  using client = await RawClient.open(socket);
  const answer = new FrameReader((await client.ask(Type.machines)).payload);
  for (let count = answer.u32(); count > 0; count--) {
    const [name, pid] = [answer.str(), answer.u32()];
    answer.u8();
    if (name === wanted) return pid;
  }
  throw new Error(`Cannot find machine "${wanted}": the launcher has none of that name`);
}
