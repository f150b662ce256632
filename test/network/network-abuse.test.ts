/**
 * A sandbox that floods its network must not harm the network of another. netd runs with the address and undefined
 * behaviour sanitisers here, so that any memory error ends it.
 */

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { eventually } from "../harness/harness.ts";
import { type Internet, linesOf, openInternet } from "../internet/internet.ts";
import { webAddress, webAddress6 } from "../internet/internet-names.ts";
import { descriptorsOf, Probe } from "../internet/network-probe.ts";
import { has, needs } from "../runner/needs.ts";

/** bounds of guest/netd/netd.c and guest/netd/flows.c for one machine */
const connectionsPerMachine = 512;
const flowsPerMachine = 512;
/** descriptors that netd and Node have open anyway, with some to spare */
const others = 100;

const undo = new AsyncDisposableStack();
let internet: Internet;
let probe: Probe;
let netd: number;

beforeAll(async () => {
  if (!has("root")) return;
  internet = await openInternet(undo);
  probe = await Probe.start(undo, internet.host, { sanitized: true });
  netd = probe.pid;
  for (const machine of ["hostile", "neighbour"]) await probe.admit(machine);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command python3"));

/** checks that everything works for the neighbour, and takes little time */
async function neighbourIsServed(): Promise<void> {
  const output = await probe.python(
    "neighbour",
    `
attempt("web", lambda: web("${webAddress}"))
attempt("web6", lambda: web("${webAddress6}"))
attempt("udp", lambda: echo(udp("${webAddress}", 7), b"hello"))
attempt("udp6", lambda: echo(udp("${webAddress6}", 7), b"hello"))
attempt("name", lambda: socket.gethostbyname("web.test"))
`,
  );
  const expected = ["web: page for x", "web6: page for x", "udp: hello", "udp6: hello", `name: ${webAddress}`];
  expect(output.split("\n")).toEqual(expected);
  expect(probe.log).not.toMatch(/Sanitizer|runtime error/);
  expect(probe.pid).toBe(netd);
}

async function egress(): Promise<number> {
  return eventually("the egress process runs", () => probe.egressPid());
}

test("ten thousand connections of one sandbox have to wait, and are released when it closes them", async () => {
  await neighbourIsServed();
  const before = await descriptorsOf(await egress());
  const flood = probe.spawn(
    undo,
    "hostile",
    `
held = []
for i in range(10000):
    s = socket.socket(); s.setblocking(False); s.connect_ex(("${webAddress}", 7)); held.append(s)
print("open", flush=True)
sys.stdin.read()
`,
  );
  expect(await linesOf(flood)()).toBe("open");
  const most = 2 * connectionsPerMachine + before + others;
  await eventually("the bound is reached", async () => (await descriptorsOf(await egress())) > connectionsPerMachine);
  await neighbourIsServed();
  expect(await descriptorsOf(await egress())).toBeLessThan(most);
  expect(await descriptorsOf(netd)).toBeLessThan(others);
  flood.kill("SIGKILL");
  await eventually("all is closed", async () => (await descriptorsOf(await egress())) < before + others);
  const code = `attempt("web", lambda: web("${webAddress}"))`;
  expect(await probe.python("hostile", code)).toBe("web: page for x");
});

test("datagrams to twenty thousand destinations use no more than a sandbox's share", async () => {
  await probe.python(
    "hostile",
    `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for i in range(10000):
    for sender, address in ((s, "${webAddress}"), (s6, "${webAddress6}"), (s, "10.9.9.9")):
        try: sender.sendto(b"x" * 1000, (address, 10000 + i))
        except OSError: pass
`,
  );
  await neighbourIsServed();
  expect(await descriptorsOf(netd)).toBeLessThan(flowsPerMachine + others);
  const code = `attempt("udp", lambda: echo(udp("${webAddress}", 7), b"hello"))`;
  expect(await probe.python("hostile", code)).toBe("udp: hello");
});

test("endless and malformed DNS questions do not stop other sandboxes from resolving names", async () => {
  await probe.python(
    "hostile",
    `
for i in range(200):
    s = udp("198.18.0.1", 53)
    for length in (0, 1, 11, 12, 100, 4096, 5000, 60000):
        try: s.send(os.urandom(length))
        except OSError: pass
for payload in (b"\\0\\0", b"\\0\\1x", b"\\xff\\xff" + os.urandom(65535), os.urandom(100000)):
    c = tcp("198.18.0.1", 53)
    try: c.sendall(payload); c.shutdown(socket.SHUT_WR); all_of(c)
    except OSError: pass
`,
  );
  await neighbourIsServed();
});

test("a sandbox that ends leaves nothing open", async () => {
  const pid = await egress();
  const before = { egress: await descriptorsOf(pid), netd: await descriptorsOf(netd) };
  await probe.admit("short-lived");
  const child = probe.spawn(
    undo,
    "short-lived",
    `
held = [tcp("${webAddress}", 7) for i in range(50)] + [udp("${webAddress6}", 7) for i in range(50)]
for s in held: echo(s, b"hello")
print("open", flush=True)
attempt("reset", lambda: held[0].recv(1))
`,
  );
  const said = linesOf(child);
  expect(await said()).toBe("open");
  // Not more than before: descriptors of earlier tests may close meanwhile.
  expect(await descriptorsOf(pid)).toBeGreaterThanOrEqual(100);
  expect(await descriptorsOf(netd)).toBeGreaterThanOrEqual(50);
  await probe.order("drop", "short-lived");
  expect(await said()).toBe("reset: ECONNRESET");
  await eventually("the connections are closed", async () => (await descriptorsOf(pid)) <= before.egress);
  await eventually("its sockets are closed", async () => (await descriptorsOf(netd)) <= before.netd);
  await neighbourIsServed();
});

test("a hostile sandbox with a policy of its own does no more harm", async () => {
  await probe.policy("hostile", { domains: [{ domain: "*.evil.test", rules: [] }] });
  const process = await egress();
  await probe.python(
    "hostile",
    `
o = ssl.MemoryBIO(); t = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), o, server_hostname="a.evil.test")
try: t.do_handshake()
except ssl.SSLWantReadError: hello = o.read()
for i in range(1000):
    s = tcp("${webAddress}", 443)
    try: s.sendall((hello, hello[:i % 200], b"GET / HTTP/1.1\\r\\n\\r\\n", hello[:40] + os.urandom(100))[i % 4])
    except OSError: pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close()
silent = [tcp("${webAddress}", 443) for i in range(100)]
dribbling = [tcp("${webAddress}", 443) for i in range(100)]
for i in range(300):
    for s in dribbling:
        try: s.send(b"\\x16\\x03\\x01\\x00\\x01\\x01" if i % 2 else b"G")
        except OSError: pass
for i in range(3000):
    s = udp("198.18.0.1", 53)
    s.send(os.urandom(2) + bytes.fromhex("0100000100000000000004") + os.urandom(2).hex().encode() + b"\\4evil\\4test\\0\\0\\1\\0\\1")
    try: udp("${webAddress6}", 1000 + i).send(b"x")
    except OSError: pass
`,
  );
  await neighbourIsServed();
  const code = `attempt("refused", lambda: https("web.test", "${webAddress}"))`;
  expect(await probe.python("hostile", code)).toBe("refused: TLSV1_ALERT_ACCESS_DENIED");
  const events = await eventually("the log is written", async () => {
    const all = await probe.events("hostile");
    return all.length > 0 ? all : undefined;
  });
  expect(events.length).toBeLessThan(20_000);
  expect(await egress()).toBe(process);
});

test("each of 250,000 packets that the kernel refuses is counted, in few lines, at no cost for the neighbour", async () => {
  const process = await egress();
  await probe.add("barred");
  const flood = probe.spawn(
    undo,
    "barred",
    `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("begun", flush=True)
for i in range(250_000):
    try: s.sendto(b"x" * 20, ("${webAddress}", 1 + i % 60000))
    except PermissionError: pass
print("done", flush=True)
`,
  );
  const said = linesOf(flood);
  expect(await said()).toBe("begun");
  await neighbourIsServed();
  expect(await said()).toBe("done");
  await neighbourIsServed();
  const events = await eventually("all are counted", async () => {
    const all = await probe.eventsNow("barred");
    const sum = all.reduce((total, { count = 0, dropped = 0 }) => total + count + dropped, 0);
    return sum >= 250_000 && { all, sum };
  });
  expect(events.sum).toBe(250_000);
  expect(events.all.length).toBeLessThan(10_000);
  expect(await egress()).toBe(process);
});
