/**
 * Sandboxes' networks without sandboxes: builds and drives guest/test/net_probe.c, which stands in for the launcher, and
 * runs programs inside the network namespaces it makes, as a user without any capability.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chown, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { CustomNetwork } from "../../src/core/network/network-policy.ts";
import { type EgressSettings, noEgressSettings } from "../../src/core/ports/egress-settings.ts";
import type { EgressEvent } from "../../src/egress/log/log.ts";
import type { TrafficCounts } from "../../src/protocols/traffic-counts.ts";
import { egressUser, netdUser } from "../../src/runtime/linux/machines/plan.ts";
import { EgressLink } from "../../src/runtime/linux/network/egress-link.ts";
import { egressView, realCommand } from "../../src/runtime/linux/network/egress-view.ts";
import { compileGuest, sanitizers } from "../harness/guest/guest-program.ts";
import { eventually, root, tempDir, type Undo } from "../harness/harness.ts";
import { has, type Need, needs } from "../runner/needs.ts";
import { ended, type Internet, linesOf, type Namespace, openInternet } from "./internet.ts";
import { nameServer } from "./internet-names.ts";
import { internetCertificate } from "./internet-tls.ts";

const run = promisify(execFile);

/** what a resolv.conf inside a sandbox must say */
const resolvConf = "nameserver 198.18.0.1\n";

const sources = [
  "test/net_probe",
  "launcher/netd_client",
  ...["net", "settings", "nft", "netlink", "nflog", "packet", "diag"].map((name) => `network/${name}`),
  ...["netd", "netd_order", "netd_process", "flows", "refusals", "holder_client"].map((name) => `netd/${name}`),
  ...["egress", "egress_filter", "egress_root", "keeper"].map((name) => `egress/${name}`),
  ...["connection", "wire", "hex", "ids", "loop"].map((name) => `shared/${name}`),
  "confinement/allow_list",
  "confinement/caps",
];

/** Compiles the probe; with `sanitized` it stops at the first bad access, with `defined` it is for another kernel. */
export async function buildProbe(directory: string, sanitized = false, defined: string[] = []): Promise<string> {
  const binary = join(directory, "net_probe");
  const macros = defined.map((macro) => `-D${macro}`);
  await compileGuest(binary, sources, [...(sanitized ? sanitizers : ["-static"]), ...macros]);
  return binary;
}

/** as the runtime confines netd and the egress process */
function confinement(command: string[]): Record<string, string> {
  return {
    SANDKEEP_NETD_UID: String(netdUser),
    SANDKEEP_EGRESS_UID: String(egressUser),
    SANDKEEP_EGRESS_VIEW: egressView(command).join("\n"),
  };
}

/** how many descriptors a process has open */
export async function descriptorsOf(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

/** a line of a machine's egress log */
export type LogLine = Omit<EgressEvent, "machine"> & {
  id: number;
  at: number;
  count: number;
  ended: number;
  bytesIn: number;
  bytesOut: number;
  dropped?: number;
};

/** The private internet of a test file, with a probe on its host. */
export interface ProbeOfFile {
  undo: AsyncDisposableStack;
  internet(): Internet;
  probe(): Probe;
  /** a new machine, which begins in deny-all */
  added(): Promise<string>;
  /** a new machine under this policy */
  under(policy: Partial<CustomNetwork>): Promise<string>;
}

/** starts before the file's first test and ends after its last; tests that lack one of the `commands` are skipped */
export function probeOfFile(commands: Need[], settings: Partial<EgressSettings> = {}): ProbeOfFile {
  const undo = new AsyncDisposableStack();
  let opened: { internet: Internet; probe: Probe } | undefined;
  let serial = 0;
  const must = () => {
    if (!opened) throw new Error("The internet of these tests is not there");
    return opened;
  };
  beforeAll(async () => {
    if (!has("root")) return;
    const internet = await openInternet(undo);
    opened = { internet, probe: await Probe.start(undo, internet.host, { settings }) };
  });
  afterAll(() => undo.disposeAsync());
  beforeEach((context) => needs(context, "root", ...commands));
  const added = async () => {
    const machine = `machine-${++serial}`;
    await must().probe.add(machine);
    return machine;
  };
  return {
    undo,
    internet: () => must().internet,
    probe: () => must().probe,
    added,
    async under(policy) {
      const machine = await added();
      await must().probe.policy(machine, policy);
      return machine;
    },
  };
}

/** domains without rules */
export function allow(...domains: string[]): CustomNetwork["domains"] {
  return domains.map((domain) => ({ domain, rules: [] }));
}

export function lines(...all: string[]): string {
  return all.join("\n");
}

export class Probe {
  readonly #child: ChildProcess;
  readonly #line: () => Promise<string>;
  readonly #directory: string;
  /** whether netd and the egress process are users of their own */
  readonly #confined: boolean;
  readonly #pids = new Map<string, number>();
  /** gives policies to the egress process, as the daemon does */
  link: EgressLink;
  /** netd's */
  pid = 0;
  /** what netd and the egress process said on stderr */
  log = "";

  private constructor(child: ChildProcess, directory: string, confined: boolean) {
    this.#child = child;
    this.#confined = confined;
    this.#line = linesOf(child);
    this.#directory = directory;
    this.link = linkIn(directory);
  }

  /** starts it in the host's namespace, with more environment for the egress process, or with another egress process */
  static async start(
    undo: Undo,
    host: Namespace,
    options: {
      sanitized?: boolean;
      defined?: string[];
      env?: NodeJS.ProcessEnv;
      settings?: Partial<EgressSettings>;
      egress?: string;
    } = {},
  ): Promise<Probe> {
    const directory = await tempDir(undo);
    const binary = await buildProbe(directory, options.sanitized, options.defined);
    const command = realCommand([process.execPath, options.egress ?? join(root, "src/egress/main.ts")]);
    // The sanitisers need more system calls than a confined process gets.
    const confined = options.sanitized !== true;
    if (confined) await chown(directory, egressUser, egressUser);
    const child = spawn(...host.command(binary, ...command), {
      env: {
        ...process.env,
        ...(confined && confinement(command)),
        SANDKEEP_EGRESS_SETTINGS: await settingsFile(directory, options.settings),
        SANDKEEP_EGRESS_SOCKET: socketIn(directory),
        SANDKEEP_EGRESS_LOGS: directory,
        ...options.env,
      },
      stdio: ["pipe", "pipe", "pipe"],
    });
    undo.defer(() => ended(child));
    const probe = new Probe(child, directory, confined);
    child.stderr.on("data", (chunk: Buffer) => {
      probe.log += chunk.toString();
    });
    await writeFile(join(directory, "resolv.conf"), resolvConf, { mode: 0o644 });
    probe.pid = await probe.#answer("ready");
    probe.link.open();
    undo.defer(async () => probe.link.close());
    return probe;
  }

  /** makes a machine's network; it begins in deny-all. `agent` is a socket to ask which process holds what */
  async add(machine: string, agent = ""): Promise<void> {
    await mkdir(join(this.#directory, machine), { mode: 0o700 });
    if (this.#confined) await chown(join(this.#directory, machine), egressUser, egressUser);
    this.#pids.set(machine, await this.#ask(`add ${machine} ${agent}`, "added"));
  }

  /** makes the network of a machine that may reach everything */
  async admit(machine: string, agent = ""): Promise<void> {
    await this.add(machine, agent);
    await this.order("allow", machine);
  }

  /** sets what it may reach from now on, with the runtime's order of steps */
  async policy(machine: string, policy: Partial<CustomNetwork>): Promise<void> {
    await this.link.set(machine, { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [], ...policy });
    await this.order("custom", machine);
  }

  /** connects another daemon, which knows no policy */
  async relink(): Promise<void> {
    this.link.close();
    this.link = linkIn(this.#directory);
    this.link.open();
  }

  /** the lines of its log so far, the older file's first */
  async events(machine: string): Promise<LogLine[]> {
    const files = ["egress.1.jsonl", "egress.jsonl"].map((name) => join(this.#directory, machine, name));
    const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")));
    return texts.flatMap((text) => text.split("\n")).flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
  }

  /** the same, including everything decided before the call */
  async eventsNow(machine: string): Promise<LogLine[]> {
    await this.link.flush(machine);
    return this.events(machine);
  }

  /** bytes by host */
  async hosts(machine: string): Promise<Record<string, TrafficCounts>> {
    return JSON.parse(await readFile(join(this.#directory, machine, "egress-hosts.json"), "utf8"));
  }

  async order(verb: "allow" | "deny" | "custom" | "cut" | "drop", machine: string): Promise<void> {
    await this.#ask(`${verb} ${machine}`, "done");
  }

  async counters(machine: string): Promise<{ received: number; sent: number }> {
    this.#child.stdin?.write(`counters ${machine}\n`);
    const [, received, sent] = (await this.#line()).split(" ").map(Number);
    return { received: received ?? 0, sent: sent ?? 0 };
  }

  /** starts another netd as a new launcher would; the old one ends */
  async restart(): Promise<void> {
    this.pid = await this.#ask("restart", "restarted");
  }

  /** the pid of the egress process, once there is one */
  async egressPid(): Promise<number | undefined> {
    const childOf = async (pid: number | undefined) =>
      Number(pid && (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8"))) || undefined;
    const keeper = await childOf(this.pid);
    return childOf(keeper);
  }

  /** kills the egress process, and waits until another one has taken its place */
  async replaceEgress(): Promise<void> {
    const pid = await eventually("the egress process runs", () => this.egressPid());
    process.kill(pid, "SIGKILL");
    await eventually("another one runs", async () => {
      const next = await this.egressPid();
      return next !== undefined && next !== pid;
    });
  }

  /** a command line that runs another inside a machine's network: uid 1000, no capability, our resolver, and patience */
  command(machine: string, ...command: string[]): [file: string, args: string[]] {
    const setup = `ulimit -n 20000 && mount --bind ${this.#directory}/resolv.conf /etc/resolv.conf && exec setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --inh-caps=-all env -i PATH=/usr/bin:/bin RES_OPTIONS=timeout:30 "$@"`;
    const pid = this.#pids.get(machine);
    return ["nsenter", [`--net=/proc/${pid}/ns/net`, "unshare", "--mount", "sh", "-c", setup, "sh", ...command]];
  }

  /** runs Python inside, with `import socket, …` done; returns what it printed */
  async python(machine: string, code: string): Promise<string> {
    const { stdout } = await run(...this.command(machine, "python3", "-c", prelude + code), { maxBuffer: 1 << 26 });
    return stdout.trim();
  }

  /** the same as root with every capability, which no sandbox has: for packets that the ruleset must stop by itself */
  async asRoot(machine: string, code: string): Promise<string> {
    const network = `--net=/proc/${this.#pids.get(machine)}/ns/net`;
    return (await run("nsenter", [network, "python3", "-c", prelude + code])).stdout.trim();
  }

  /** the same as a plain user, as a process to talk to */
  spawn(undo: Undo, machine: string, code: string): ChildProcess {
    const child = spawn(...this.command(machine, "python3", "-c", prelude + code), {
      stdio: ["pipe", "pipe", "inherit"],
    });
    undo.defer(() => ended(child));
    return child;
  }

  async #ask(order: string, answer: string): Promise<number> {
    this.#child.stdin?.write(`${order}\n`);
    return this.#answer(answer);
  }

  async #answer(word: string): Promise<number> {
    const line = await this.#line();
    const [first, number] = line.split(" ");
    if (first !== word) throw new Error(`The probe said "${line}", not "${word}"`);
    return Number(number);
  }
}

function linkIn(directory: string): EgressLink {
  return new EgressLink({ socket: socketIn(directory), logError: console.error, commandOf: () => undefined });
}

async function settingsFile(directory: string, settings: Partial<EgressSettings> = {}): Promise<string> {
  const file = join(directory, "egress.json");
  await writeFile(file, JSON.stringify({ ...noEgressSettings, resolvers: [nameServer], ...settings }));
  return file;
}

function socketIn(directory: string): string {
  return join(directory, "egress.sock");
}

/**
 * Functions for the programs inside. Every attempt has a deadline, and prints an error's name instead of failing. An
 * attempt is SLOW if it waited for a timer: it took over three seconds, of which a processor had nothing to do for three.
 * The time that a busy host takes does not count.
 */
const prelude = `
import socket, struct, sys, os, errno, hashlib, time, ssl, json
CA = """${internetCertificate}"""
def tcp(address, port, timeout=60):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(timeout); s.connect((address, port)); return s
def udp(address, port, timeout=60):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(timeout); s.connect((address, port)); return s
def all_of(s):
    data = b""
    while chunk := s.recv(65536): data += chunk
    return data
def web(address, port=80):
    s = tcp(address, port); s.sendall(b"GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n"); return all_of(s).decode().split("\\r\\n\\r\\n")[1]
def tls(address, name, port=443, trust=CA):
    c = ssl.create_default_context(cadata=trust)
    if name is None: c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    return c.wrap_socket(tcp(address, port), server_hostname=name)
def https(name, address=None, port=443, path="/", trust=CA):
    s = tls(address or socket.gethostbyname(name), name, port, trust)
    s.sendall(f"GET {path} HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n".encode())
    return json.loads(all_of(s).decode().split("\\r\\n\\r\\n", 1)[1])["sni"]
def echo(s, data): s.send(data); return s.recv(65536).decode()
def spare(read=open): return int(read("/proc/stat").readline().split()[4]) / os.sysconf("SC_CLK_TCK")
def attempt(name, f):
    begin, rest = time.monotonic(), spare()
    try: result = f()
    except socket.timeout: result = "TIMEOUT"
    except socket.gaierror as e: result = "NONAME"
    except ssl.SSLError as e: result = e.reason or "ECONNRESET"
    except OSError as e: result = errno.errorcode.get(e.errno, str(e))
    print(f"{name}: {result}" + (" SLOW" if min(time.monotonic() - begin, spare() - rest) > 3 else ""), flush=True)
`;
