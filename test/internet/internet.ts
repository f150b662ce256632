/**
 * A private internet for tests, out of network namespaces: a "host" with one wire to an "internet" that has public
 * addresses and servers on them. Nothing of it can leave the machine, since neither namespace has another wire.
 *
 *   sandboxes ── netd, egress in "host" ──wire── "internet" (test/internet/internet-servers.ts)
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { root, type Undo } from "../harness/harness.ts";
import {
  evilAddress,
  forbiddenAddresses,
  forbiddenAddresses6,
  hostAddress,
  hostAddress6,
  modelAddress,
  nameServer,
  otherAddress,
  otherAddress6,
  webAddress,
  webAddress6,
} from "./internet-names.ts";

const run = promisify(execFile);

/** A network namespace that lives until the stack is disposed. */
export class Namespace {
  readonly #holder: ChildProcess;

  private constructor(holder: ChildProcess) {
    this.#holder = holder;
  }

  static async open(undo: Undo): Promise<Namespace> {
    const hold: [string, string[]] = ["unshare", ["--net", "sh", "-c", "echo in; exec cat"]];
    const holder = spawn(...hold, { stdio: ["pipe", "pipe", "inherit"] });
    undo.defer(() => ended(holder));
    await linesOf(holder)();
    return new Namespace(holder);
  }

  get pid(): number {
    return pidOf(this.#holder);
  }

  /** a command line that runs another one inside */
  command(...command: string[]): [file: string, args: string[]] {
    return inNetworkOf(this.pid, ...command);
  }

  async ip(...lines: string[]): Promise<void> {
    for (const line of lines) await run(...this.command("ip", ...line.split(" ")));
  }
}

export interface Internet {
  host: Namespace;
  world: Namespace;
}

/** Makes the two namespaces and their wire, and starts the servers. */
export async function openInternet(undo: Undo): Promise<Internet> {
  const world = await Namespace.open(undo);
  const host = await Namespace.open(undo);
  const end = { world: "93.184.217.1", world6: "2606:2800:221::1" };
  await host.ip(
    "link set lo up",
    `link add wire type veth peer name wire netns ${world.pid}`,
    `addr add ${hostAddress}/24 dev wire`,
    `addr add ${hostAddress6}/64 dev wire nodad`,
    "link set wire up",
  );
  const addresses = [webAddress, otherAddress, evilAddress, modelAddress, nameServer, ...forbiddenAddresses].map(
    (address) => `${address}/32`,
  );
  const addresses6 = [webAddress6, otherAddress6, ...forbiddenAddresses6].map((address) => `${address}/128`);
  await world.ip(
    "link set lo up",
    `addr add ${end.world}/24 dev wire`,
    `addr add ${end.world6}/64 dev wire nodad`,
    ...addresses.map((address) => `addr add ${address} dev lo`),
    ...addresses6.map((address) => `addr add ${address} dev lo nodad`),
    "link set wire up",
  );
  await host.ip(`route add default via ${end.world}`, `-6 route add default via ${end.world6}`);

  const servers = spawn(...world.command(process.execPath, join(root, "test/internet/internet-servers.ts")), {
    stdio: ["pipe", "pipe", "inherit"],
  });
  undo.defer(() => ended(servers));
  await linesOf(servers)();
  return { host, world };
}

/** the lines that a process prints, one for each call */
export function linesOf(child: ChildProcess): () => Promise<string> {
  if (!child.stdout) throw new Error("Cannot read lines: the process has no stdout");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error("Cannot read a line: the process has ended");
    return value;
  };
}

/** a command line that runs another one in the network of a process */
export function inNetworkOf(pid: number, ...command: string[]): [file: string, args: string[]] {
  return ["nsenter", [`--net=/proc/${pid}/ns/net`, ...command]];
}

/** closes the process's stdin, kills it, and waits for its end */
export function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.stdin?.end();
    child.kill("SIGKILL");
  });
}

function pidOf(child: ChildProcess): number {
  if (child.pid === undefined) throw new Error("Cannot find a process: it was not started");
  return child.pid;
}
