/** A sandbox's network against a private internet: what gets through, what must not, and what survives a crash. */

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { eventually, tempDir } from "../harness/harness.ts";
import { ended, linesOf } from "../internet/internet.ts";
import {
  blockAt,
  blockLength,
  forbiddenAddresses,
  forbiddenAddresses6,
  hostAddress,
  hostAddress6,
  webAddress,
  webAddress6,
} from "../internet/internet-names.ts";
import { buildProbe, lines, Probe, probeOfFile } from "../internet/network-probe.ts";
import { watchWire } from "../internet/wire-watch.ts";

const { undo, internet, probe, added } = probeOfFile(["the command python3", "the command tcpdump"]);

describe("allow-all", () => {
  test("reaches servers over IPv4 and IPv6, by address and by name", async () => {
    const machine = await allowed();
    expect(
      await probe().python(
        machine,
        `
attempt("address", lambda: web("${webAddress}"))
attempt("address6", lambda: web("${webAddress6}"))
attempt("name", lambda: web(socket.gethostbyname("web.test")))
attempt("name6", lambda: web(socket.getaddrinfo("web6.test", 80)[0][4][0]))
attempt("refused", lambda: web("${webAddress}", 81))
attempt("refused6", lambda: web("${webAddress6}", 81))
`,
      ),
    ).toBe(
      lines(
        "address: page for x",
        "address6: page for x",
        "name: page for x",
        "name6: page for x",
        "refused: ECONNRESET",
        "refused6: ECONNRESET",
      ),
    );
  });

  test("carries datagrams both ways, large ones too, and reports a port without a listener", async () => {
    const machine = await allowed();
    expect(
      await probe().python(
        machine,
        `
for name, address in (("v4", "${webAddress}"), ("v6", "${webAddress6}")):
    attempt(name, lambda: echo(udp(address, 7), b"hello"))
    attempt(name + " large", lambda: len(echo(udp(address, 7), b"x" * 60000)))
    attempt(name + " empty", lambda: repr(echo(udp(address, 7), b"")))
    attempt(name + " refused", lambda: echo(udp(address, 8), b"hello"))
def same_port():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.bind(("", 7007))
    s.sendto(b"hello", ("${webAddress}", 7007)); return s.recvfrom(100)
attempt("same port", same_port)
`,
      ),
    ).toBe(
      lines(
        ...["v4", "v6"].flatMap((v) => [
          `${v}: hello`,
          `${v} large: 60000`,
          `${v} empty: ''`,
          `${v} refused: ECONNREFUSED`,
        ]),
        `same port: (b'hello', ('${webAddress}', 7007))`,
      ),
    );
  });

  test("resolves names over UDP and, where an answer is too long, over TCP; IPv4 comes first", async () => {
    const machine = await allowed();
    expect(
      await probe().python(
        machine,
        `
attempt("web", lambda: [a[4][0] for a in socket.getaddrinfo("web.test", 80, type=socket.SOCK_STREAM)])
attempt("long", lambda: len(socket.getaddrinfo("long.test", 80, family=socket.AF_INET, type=socket.SOCK_STREAM)))
attempt("unknown", lambda: socket.gethostbyname("unknown.test"))
`,
      ),
    ).toBe(lines(`web: ['${webAddress}', '${webAddress6}']`, "long: 60", "unknown: NONAME"));
  });

  test("refuses addresses that are not public, the host's own, and names that stand for them", async () => {
    const machine = await allowed();
    const disguised = ["::ffff:10.9.9.9", "64:ff9b::a09:909", "2002:a09:909::1", "0.0.0.1", "224.0.0.1"];
    const addresses = [...forbiddenAddresses, ...forbiddenAddresses6, hostAddress, hostAddress6, ...disguised];
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `
def web(address, port=80, plain=web): page = plain(address, port); return "403" if "egress_denied" in page else page
for address in ${JSON.stringify(addresses)}:
    attempt(f"tcp {address}", lambda: web(address))
    attempt(f"udp {address}", lambda: echo(udp(address, 7, 2), b"hello"))
for name in ("metadata.test", "private.test", "host.test"): attempt(name, lambda: socket.getaddrinfo(name, 80))
attempt("mixed", lambda: sorted({a[4][0] for a in socket.getaddrinfo("mixed.test", 80)}))
attempt("direct", lambda: web("198.18.0.1", 1))
`,
    );
    expect(output).not.toMatch(/page|hello|SLOW/);
    expect(output.split("\n")).toHaveLength(2 * addresses.length + 5);
    const mixed = `mixed: ['${webAddress6}', '${webAddress}', '::1']`;
    expect(output).toContain(lines("metadata.test: NONAME", "private.test: NONAME", "host.test: NONAME", mixed));
    // Only the DNS questions and their answers left.
    const packets = await watch.packets();
    expect(packets.filter((packet) => !packet.includes(".53"))).toEqual([]);
  });

  test("lets the operator allow a private range", async () => {
    await using stack = new AsyncDisposableStack();
    const other = await Probe.start(stack, internet().host, { settings: { allow: ["10.9.9.0/24"] } });
    await other.admit("a");
    const code = `
attempt("allowed", lambda: web("10.9.9.9"))
attempt("other", lambda: json.loads(web("192.168.7.7"))["error"]["reason"])
`;
    const why = "192.168.7.7 is private (SANDKEEP_EGRESS_ALLOW=192.168.7.7/32 would open it)";
    expect(await other.python("a", code)).toBe(lines("allowed: page for x", `other: ${why}`));
  });

  test("keeps ICMP and other protocols in", async () => {
    const machine = await allowed();
    const watch = await watchWire(undo, internet());
    expect(await probe().asRoot(machine, otherProtocols)).toBe(lines("icmp: EPERM", "icmp6: EPERM", "gre: EPERM"));
    expect(await watch.packets()).toEqual([]);
  });

  test("carries 64 MB each way unharmed, and one direction may end before the other", async () => {
    const machine = await allowed();
    const blocks = (64 << 20) / blockLength;
    const hash = createHash("sha256");
    for (let i = 0; i < blocks; i++) hash.update(blockAt(i));
    const before = await probe().counters(machine);
    const output = await probe().python(
      machine,
      `
block = lambda i: hashlib.sha256(i.to_bytes(4, "big")).digest() * ${blockLength / 32}
up = tcp("${webAddress}", 9)
for i in range(${blocks}): up.sendall(block(i))
up.shutdown(socket.SHUT_WR)
print(all_of(up).decode())
down = tcp("${webAddress6}", 19)
down.sendall(b"${blocks}\\n")
hash = hashlib.sha256()
while chunk := down.recv(1 << 20): hash.update(chunk)
print(hash.hexdigest())
`,
    );
    const expected = hash.digest("hex");
    expect(output).toBe(lines(expected, expected));
    const after = await probe().counters(machine);
    for (const direction of ["received", "sent"] as const) {
      const counted = after[direction] - before[direction];
      expect(counted).toBeGreaterThan(64 << 20);
      expect(counted).toBeLessThan((64 << 20) * 1.1);
    }
  });
});

describe("deny-all", () => {
  test("lets no packet out, and says so at once", async () => {
    const machine = await added();
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `
attempt("tcp", lambda: web("${webAddress}"))
attempt("tcp6", lambda: web("${webAddress6}"))
attempt("udp", lambda: echo(udp("${webAddress}", 7), b"hello"))
attempt("udp6", lambda: echo(udp("${webAddress6}", 7), b"hello"))
attempt("dns", lambda: echo(udp("198.18.0.1", 53), b"hello"))
attempt("dns tcp", lambda: tcp("198.18.0.1", 53))
attempt("name", lambda: socket.gethostbyname("web.test"))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
def own():
    l = socket.socket(); l.bind(("0.0.0.0", 0)); l.listen(); c = tcp("127.0.0.1", l.getsockname()[1]); return "works"
attempt("own", own)
`,
    );
    expect(output).toBe(
      lines(
        "tcp: ECONNREFUSED",
        "tcp6: ECONNREFUSED",
        "udp: EPERM",
        "udp6: EPERM",
        "dns: EPERM",
        "dns tcp: ECONNREFUSED",
        "name: NONAME",
        "raw: EPERM",
        "packet: EPERM",
        "own: works",
      ),
    );
    expect(await probe().asRoot(machine, otherProtocols)).toBe(lines("icmp: EPERM", "icmp6: EPERM", "gre: EPERM"));
    expect(await watch.packets()).toEqual([]);
    expect(await probe().counters(machine)).toEqual({ received: 0, sent: 0 });
  });

  test("stops an open connection and an open flow, whichever side sends first, until allowed again", async () => {
    const machine = await allowed();
    const child = probe().spawn(
      undo,
      machine,
      `
idle, busy, flow = tcp("${webAddress}", 7), tcp("${webAddress6}", 7), udp("${webAddress}", 7)
for s in (idle, busy, flow): echo(s, b"hello")
print("open", flush=True)
for line in sys.stdin:
    if line == "denied\\n":
        attempt("busy", lambda: echo(busy, b"hello"))
        attempt("flow", lambda: echo(flow, b"hello"))
    if line == "cut\\n": attempt("idle", lambda: idle.recv(1))
    if line == "allowed\\n": attempt("anew", lambda: web("${webAddress}"))
`,
    );
    const said = linesOf(child);
    expect(await said()).toBe("open");
    await probe().order("deny", machine);
    const watch = await watchWire(undo, internet());
    child.stdin?.write("denied\n");
    expect(await said()).toBe("busy: ECONNRESET");
    expect(await said()).toBe("flow: EPERM");
    await probe().order("cut", machine);
    child.stdin?.write("cut\n");
    expect(await said()).toBe("idle: ECONNRESET");
    // The far ends of the two connections get their end, and nothing else leaves.
    const packets = await watch.packets();
    expect(packets.filter((packet) => !packet.includes("Flags [R"))).toEqual([]);
    await probe().order("allow", machine);
    child.stdin?.write("allowed\n");
    expect(await said()).toBe("anew: page for x");
  });
});

describe("from inside, as a plain user", () => {
  test("a program cannot take a listener's place or use a foreign address", async () => {
    const machine = await allowed();
    expect(
      await probe().python(
        machine,
        `
def bind(kind, address, port, reuse=False):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    if reuse: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((address, port)); return "bound"
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for reuse in (False, True):
        attempt("gateway", lambda: bind(kind, "198.18.0.1", 1, reuse))
        attempt("any", lambda: bind(kind, "0.0.0.0", 1, reuse))
        attempt("any6", lambda: bind(kind, "::", 1, reuse))
    attempt("foreign", lambda: bind(kind, "${webAddress}", 8080))
    attempt("foreign6", lambda: bind(kind, "${webAddress6}", 8080))
s = socket.socket()
attempt("mark", lambda: s.setsockopt(socket.SOL_SOCKET, 36, 0x534b))
attempt("transparent", lambda: s.setsockopt(socket.SOL_IP, 19, 1))
attempt("still", lambda: web("${webAddress}"))
`,
      ),
    ).toBe(
      lines(
        ...["stream", "datagram"].flatMap(() => [
          ...["alone", "shared"].flatMap(() => ["gateway: EADDRNOTAVAIL", "any: EADDRINUSE", "any6: EADDRINUSE"]),
          "foreign: EADDRNOTAVAIL",
          "foreign6: EADDRNOTAVAIL",
        ]),
        "mark: EPERM",
        "transparent: EPERM",
        "still: page for x",
      ),
    );
  });

  test("a server may use a low port, or the port of an open outbound connection, and the two stay apart", async () => {
    const machine = await allowed();
    expect(
      await probe().python(
        machine,
        `
out = tcp("${webAddress}", 7007)
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("0.0.0.0", 7007)); l.listen()
own = tcp("127.0.0.1", 7007); l.accept()[0].sendall(b"mine")
attempt("own", lambda: own.recv(100))
low = socket.socket(); attempt("low", lambda: low.bind(("0.0.0.0", 80)))
attempt("out", lambda: echo(out, b"hello"))
attempt("new", lambda: echo(tcp("${webAddress}", 7007), b"hello"))
`,
      ),
    ).toBe(lines("own: b'mine'", "low: None", "out: hello", "new: hello"));
  });
});

describe("when a part dies", () => {
  test("the egress process is started again, and connections made meanwhile are served", async () => {
    const machine = await allowed();
    const code = `attempt("web", lambda: web("${webAddress}"))`;
    for (let i = 0; i < 2; i++) {
      const pid = await eventually("the egress process runs", () => probe().egressPid());
      process.kill(pid, "SIGKILL");
      // a connection that it was given before is gone with it
      await eventually("it has ended", () => !alive(pid));
      expect(await probe().python(machine, code)).toBe("web: page for x");
      expect(await probe().egressPid()).not.toBe(pid);
    }
  });

  test("a new launcher takes the sandboxes over", async () => {
    const machine = await allowed();
    const old = probe().pid;
    await probe().restart();
    const code = `
for i in range(20): attempt("web", lambda: web("${webAddress}"))
attempt("udp", lambda: echo(udp("${webAddress}", 7), b"hello"))
attempt("name", lambda: socket.gethostbyname("web.test"))
`;
    await eventually("the old netd is gone", () => !alive(old));
    const pages = Array.from({ length: 20 }, () => "web: page for x");
    expect(await probe().python(machine, code)).toBe(lines(...pages, "udp: hello", `name: ${webAddress}`));
  });
});

/** what a probe says to "add machine" where /proc/sys is read-only */
async function addWithReadOnlySettings(...namespaces: string[]): Promise<{ said: string; errors: string }> {
  const binary = await buildProbe(await tempDir(undo));
  const readOnly = 'mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$@"';
  const command = [...namespaces, "--mount", "sh", "-c", readOnly, "sh", binary, "/bin/sleep", "1000"];
  const child = spawn("unshare", command, { stdio: "pipe" });
  undo.defer(() => ended(child));
  child.stdin.end("add machine\n");
  const [said, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { said, errors };
}

test("settings of the kernel are written also where a container has them read-only", async () => {
  const { said, errors } = await addWithReadOnlySettings();
  expect(errors).toBe("");
  expect(said).toMatch(/^added \d+/m);
});

test("a setting of the kernel that cannot be written is named", async () => {
  // In this user namespace nobody may mount a /proc of its own.
  const { errors } = await addWithReadOnlySettings("--user", "--map-root-user");
  expect(errors).toMatch(
    /^Cannot set "\w+\/\w+" below \/proc\/sys\/net to \d+: Read-only file system\nCannot prepare: /,
  );
});

const otherProtocols = `
def raw(family, protocol, address):
    s = socket.socket(family, socket.SOCK_RAW, protocol); s.sendto(bytes([8, 0, 0xf7, 0xff, 0, 0, 0, 0]), (address, 0))
attempt("icmp", lambda: raw(socket.AF_INET, socket.IPPROTO_ICMP, "${webAddress}"))
attempt("icmp6", lambda: raw(socket.AF_INET6, socket.IPPROTO_ICMPV6, "${webAddress6}"))
attempt("gre", lambda: raw(socket.AF_INET, 47, "${webAddress}"))
`;

async function allowed(): Promise<string> {
  const machine = await added();
  await probe().order("allow", machine);
  return machine;
}

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
