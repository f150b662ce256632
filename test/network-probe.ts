/**
 * Sandboxes' networks without sandboxes: builds and drives guest/test/net_probe.c, which stands in for the launcher, and
 * runs programs inside the network namespaces it makes, as a user without any capability.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { root, tempDir, type Undo } from "./harness.ts";
import { ended, linesOf, type Namespace } from "./internet.ts";
import { nameServer } from "./internet-names.ts";

const run = promisify(execFile);

/** what a resolv.conf inside a sandbox must say */
const resolvConf = "nameserver 198.18.0.1\n";

const sources = ["net", "nft", "netlink", "netd", "netd_client", "egress", "flows", "packet", "ids", "loop"];
const sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/** Compiles the probe; with `sanitized`, so that it stops at the first bad access. */
export async function buildProbe(directory: string, sanitized = false): Promise<string> {
  const guest = join(root, "guest");
  const binary = join(directory, "net_probe");
  const flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", ...(sanitized ? sanitize : ["-static"])];
  const files = ["test/net_probe.c", ...sources.map((name) => `${name}.c`)];
  await run("cc", [...flags, "-o", binary, ...files], { cwd: guest });
  return binary;
}

/** how many descriptors a process has open */
export async function descriptorsOf(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

export class Probe {
  readonly #child: ChildProcess;
  readonly #line: () => Promise<string>;
  readonly #directory: string;
  readonly #pids = new Map<string, number>();
  /** netd's */
  pid = 0;
  /** what netd and the egress process said on stderr */
  log = "";

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child;
    this.#line = linesOf(child);
    this.#directory = directory;
  }

  /** starts it in the namespace that plays the host, with more environment for the egress process */
  static async start(
    undo: Undo,
    host: Namespace,
    options: { sanitized?: boolean; env?: NodeJS.ProcessEnv } = {},
  ): Promise<Probe> {
    const directory = await tempDir(undo);
    const binary = await buildProbe(directory, options.sanitized);
    const child = spawn(...host.command(binary, process.execPath, join(root, "src/egress/main.ts")), {
      env: { ...process.env, SANDKEEP_DNS: nameServer, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    undo.defer(() => ended(child));
    const probe = new Probe(child, directory);
    child.stderr.on("data", (chunk: Buffer) => {
      probe.log += chunk.toString();
    });
    await writeFile(join(directory, "resolv.conf"), resolvConf, { mode: 0o644 });
    probe.pid = await probe.#answer("ready");
    return probe;
  }

  /** makes a machine's network; it begins in deny-all */
  async add(machine: string): Promise<void> {
    this.#pids.set(machine, await this.#ask(`add ${machine}`, "added"));
  }

  async order(verb: "allow" | "deny" | "cut" | "drop", machine: string): Promise<void> {
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
    const children = await readFile(`/proc/${this.pid}/task/${this.pid}/children`, "utf8");
    return children.trim() === "" ? undefined : Number(children.trim());
  }

  /** a command line that runs another inside a machine's network: uid 1000, no capability, our resolver */
  command(machine: string, ...command: string[]): [file: string, args: string[]] {
    const setup = `ulimit -n 20000 && mount --bind ${this.#directory}/resolv.conf /etc/resolv.conf && exec setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --inh-caps=-all env -i PATH=/usr/bin:/bin "$@"`;
    const pid = this.#pids.get(machine);
    return ["nsenter", [`--net=/proc/${pid}/ns/net`, "unshare", "--mount", "sh", "-c", setup, "sh", ...command]];
  }

  /** runs Python inside, with `import socket, …` done; returns what it printed */
  async python(machine: string, code: string): Promise<string> {
    const { stdout } = await run(...this.command(machine, "python3", "-c", prelude + code), { maxBuffer: 1 << 26 });
    return stdout.trim();
  }

  /** the same as root with every capability, which no sandbox has: for what the ruleset must stop by itself */
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

/** what the programs inside have at hand; every attempt has a deadline, and prints an error's name instead of failing */
const prelude = `
import socket, struct, sys, os, errno, hashlib, time
def tcp(address, port, timeout=10):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(timeout); s.connect((address, port)); return s
def udp(address, port, timeout=10):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(timeout); s.connect((address, port)); return s
def all_of(s):
    data = b""
    while chunk := s.recv(65536): data += chunk
    return data
def web(address, port=80):
    s = tcp(address, port); s.sendall(b"GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n"); return all_of(s).decode().split("\\r\\n\\r\\n")[1]
def echo(s, data): s.send(data); return s.recv(65536).decode()
def attempt(name, f):
    begin = time.monotonic()
    try: result = f()
    except socket.timeout: result = "TIMEOUT"
    except socket.gaierror as e: result = "NONAME"
    except OSError as e: result = errno.errorcode.get(e.errno, str(e))
    print(f"{name}: {result}" + (" SLOW" if time.monotonic() - begin > 3 else ""), flush=True)
`;
