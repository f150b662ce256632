/**
 * The egress log also has what the kernel refuses by itself: everything under deny-all, and under any policy packets
 * that are neither TCP nor UDP.
 */

import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { suggestPolicy } from "../../src/core/network/policy-suggestion.ts";
import { eventually } from "../harness/harness.ts";
import { linesOf } from "../internet/internet.ts";
import { webAddress, webAddress6 } from "../internet/internet-names.ts";
import { allow, type LogLine, lines, Probe, probeOfFile } from "../internet/network-probe.ts";
import { watchWire } from "../internet/wire-watch.ts";

const { undo, internet, probe, added } = probeOfFile(["the command python3", "the command tcpdump"]);

const denied = { allowed: false, rule: "deny-all", reason: "the policy is deny-all", cause: { kind: "deny-all" } };

describe("under deny-all", () => {
  test("each attempt is logged with what a policy would have to allow, and no packet leaves", async () => {
    const machine = await added();
    const watch = await watchWire(undo, internet());
    expect(await probe().eventsNow(machine)).toEqual([]);
    const before = Date.now();
    const output = await probe().python(
      machine,
      `
attempt("name", lambda: socket.getaddrinfo("Web.test", 443))
attempt("tcp", lambda: tcp("${webAddress}", 443))
attempt("tcp6", lambda: tcp("${webAddress6}", 80))
attempt("udp", lambda: echo(udp("${webAddress}", 123), b"hello"))
attempt("udp6", lambda: echo(udp("${webAddress6}", 53), b"hello"))
attempt("options", lambda: (s := socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).setsockopt(0, 4, b"\\1" * 40) or s.sendto(b"x", ("${webAddress}", 7)))
attempt("metadata", lambda: tcp("169.254.169.254", 80))
attempt("resolver", lambda: tcp("198.18.0.1", 53))
`,
    );
    const said = ["tcp", "tcp6", "udp", "udp6", "options", "metadata", "resolver"];
    const how = (name: string) => (/udp|options/.test(name) ? "EPERM" : "ECONNREFUSED");
    expect(output).toBe(lines("name: NONAME", ...said.map((name) => `${name}: ${how(name)}`)));
    const events = await probe().eventsNow(machine);
    const subnet = (range: string) => ({ ...denied, missing: { subnets: { allow: [range] } } });
    expect(decisionsIn(events)).toEqual([
      { protocol: "dns", name: "web.test", type: "A", ...denied, missing: { allow: ["web.test"] } },
      { protocol: "tcp", address: webAddress, port: 443, ...subnet(`${webAddress}/32`) },
      { protocol: "tcp", address: webAddress6, port: 80, ...subnet(`${webAddress6}/128`) },
      { protocol: "udp", address: webAddress, port: 123, ...subnet(`${webAddress}/32`) },
      { protocol: "udp", address: webAddress6, port: 53, ...subnet(`${webAddress6}/128`) },
      { protocol: "udp", address: webAddress, port: 7, ...subnet(`${webAddress}/32`) },
      {
        protocol: "tcp",
        address: "169.254.169.254",
        port: 80,
        allowed: false,
        reason: "169.254.169.254 is link-local (SANDKEEP_EGRESS_ALLOW=169.254.169.254/32 would open it)",
        cause: { kind: "special-address" },
      },
      { protocol: "dns", address: "198.18.0.1", port: 53, ...denied },
    ]);
    for (const { at } of events) expect(at >= before && at <= Date.now()).toBe(true);
    expect(await watch.packets()).toEqual([]);
    expect(await probe().counters(machine)).toEqual({ received: 0, sent: 0 });
  });

  test("DNS questions of every type are logged by name, and malformed ones do no harm", async () => {
    const machine = await added();
    await probe().python(
      machine,
      `
def send(address, data):
    try: udp(address, 53).send(data)
    except PermissionError: pass
def question(name, type, rest=b"", counts=(1, 0, 0, 0)):
    labels = b"".join(bytes([len(l)]) + l for l in name.encode().split(b"."))
    return struct.pack(">HHHHHH", 7, 256, *counts) + labels + b"\\0" + struct.pack(">HH", type, 1) + rest
edns = b"\\0\\0\\x29\\4\\xd0\\0\\0\\0\\0\\0\\0"
longest = ".".join(["x" * 61, "y" * 63, "z" * 63, "w" * 63])
send("198.18.0.1", question(longest, 28, edns, (1, 0, 0, 1)))
send("fd73:616e:646b::1", question("six.test", 15))
send("198.18.0.1", question("_db._tcp.srv.test", 33, edns, (1, 0, 0, 1)))
bad = question("bad.test", 1)
for each in (b"", b"x", bad[:11], bad[:12], bad[:15], bad[:-1], bytes(12), b"\\xff" * 400, bad[:4] + b"\\xff" * 8 + bad[12:],
             bad[:12] + b"\\xc0\\x0c\\0\\1\\0\\1", question("bad.test", 1, b"", (2, 0, 0, 0)), bad[:2] + b"\\x81\\0" + bad[4:],
             question('a"b\\\\.test', 1), os.urandom(5000)):
    send("198.18.0.1", each)
`,
    );
    const events = await probe().eventsNow(machine);
    const longest = ["x".repeat(61), "y".repeat(63), "z".repeat(63), "w".repeat(63)].join(".");
    const dns = { protocol: "dns", ...denied };
    expect(decisionsIn(events)).toEqual([
      { ...dns, name: longest, type: "AAAA", missing: { allow: [longest] } },
      { ...dns, name: "six.test", type: "MX", missing: { allow: ["six.test"] } },
      { ...dns, name: "_db._tcp.srv.test", type: "SRV", missing: { allow: ["srv.test"] } },
      { ...dns, address: "198.18.0.1", port: 53 },
    ]);
    const malformed = events.filter(({ name }) => name === undefined);
    expect(malformed.reduce((sum, { count }) => sum + count, 0)).toBe(14);
    expect(suggestPolicy(events).policy).toMatchObject({
      allowedCidrs: [],
      domains: allow(longest, "six.test", "srv.test").sort(byDomain),
    });
  });

  test("packets on connections that were open before do not count as attempts", async () => {
    const machine = await added();
    await probe().order("allow", machine);
    const child = probe().spawn(
      undo,
      machine,
      `
open = tcp("${webAddress}", 7); echo(open, b"hello"); print("open", flush=True)
sys.stdin.readline()
attempt("open", lambda: echo(open, b"hello")); attempt("new", lambda: tcp("${webAddress}", 7))
`,
    );
    const said = linesOf(child);
    await said();
    await probe().order("deny", machine);
    child.stdin?.write("denied\n");
    expect([await said(), await said()]).toEqual(["open: ECONNRESET", "new: ECONNREFUSED"]);
    const events = await probe().eventsNow(machine);
    expect(events.filter(({ rule }) => rule === "deny-all")).toMatchObject([{ port: 7, count: 1 }]);
  });

  test("nothing is lost or logged with the wrong mode when the policy changes back and forth", async () => {
    const machine = await added();
    const tries = lines(
      // Open sockets have different ports. The port of a closed one may come again, and then belongs to the same flow.
      "held = []",
      "def hold(s): held.append(s); return s",
      "def tries(port):",
      `    for i in range(40): attempt(f"{port}", lambda: echo(hold(udp("${webAddress}", port)), b"x"))`,
    );
    const child = probe().spawn(undo, machine, lines("", tries, "for port in sys.stdin: tries(int(port))"));
    const said = linesOf(child);
    const run = async (port: number) => {
      child.stdin?.write(`${port}\n`);
      for (let i = 0; i < 40; i++) await said();
    };
    await run(1001);
    await probe().policy(machine, { domains: allow("web.test") });
    await run(1002);
    await probe().order("deny", machine);
    await run(1003);
    await probe().policy(machine, { domains: allow("web.test") });
    const events = (await probe().eventsNow(machine)).filter(({ count }) => count > 0);
    const told = (port: number, rule: string | undefined) =>
      events.filter((event) => event.port === port && event.rule === rule).reduce((sum, { count }) => sum + count, 0);
    expect([told(1001, "deny-all"), told(1002, undefined), told(1003, "deny-all")]).toEqual([40, 40, 40]);
    expect(events.reduce((sum, { count }) => sum + count, 0)).toBe(120);
  });

  test("the last attempts of a machine that ends are logged", async () => {
    const machine = await added();
    await probe().python(machine, `attempt("tcp", lambda: tcp("${webAddress}", 80))`);
    await probe().order("drop", machine);
    await eventually("it is written", async () => (await probe().events(machine)).length === 1);
  });

  test("logging continues when netd or the egress process is replaced", async () => {
    const machine = await added();
    const attempt = (port: number) => probe().python(machine, `attempt("tcp", lambda: tcp("${webAddress}", ${port}))`);
    const isWritten = async (port: number) => (await probe().eventsNow(machine)).some((event) => event.port === port);
    const attemptAt = async (port: number) => {
      await attempt(port);
      await eventually("it is written", () => isWritten(port));
    };
    await attemptAt(1);
    for (let port = 2; port < 5; port++) {
      const old = probe().pid;
      await probe().restart();
      await eventually("the old netd is gone", () => !alive(old));
      await attemptAt(port);
    }
    await probe().replaceEgress();
    // Until the new one reads the kernel's log, refusals are not written.
    await eventually("it is written again", async () => {
      await attempt(5);
      return isWritten(5);
    });
  });
});

test("ICMP and other protocols are refused under every policy, and logged", async () => {
  const machine = await added();
  const raw = (family: string, protocol: number, address: string) =>
    `attempt("raw", lambda: socket.socket(socket.AF_${family}, socket.SOCK_RAW, ${protocol}).sendto(bytes([8] + [0] * 7), ("${address}", 0)))`;
  const code = lines("", raw("INET", 1, webAddress), raw("INET6", 58, webAddress6), raw("INET", 47, webAddress));
  const refused = { allowed: false, cause: { kind: "unsupported" } };
  const expected = [
    { protocol: "icmp", address: webAddress, ...refused, reason: "no policy lets ICMP out" },
    { protocol: "icmp", address: webAddress6, ...refused, reason: "no policy lets ICMP out" },
    { protocol: "other", address: webAddress, ...refused, reason: "no policy lets IP protocol 47 out" },
  ];
  for (const mode of ["deny", "allow"] as const) {
    await probe().order(mode, machine);
    const before = (await probe().eventsNow(machine)).length;
    expect(await probe().asRoot(machine, code)).toBe(lines("raw: EPERM", "raw: EPERM", "raw: EPERM"));
    expect((await probe().eventsNow(machine)).slice(before).map(withoutCounts)).toEqual(expected);
  }
  await probe().python(machine, `attempt("name", lambda: socket.gethostbyname("web.test"))`);
  await probe().asRoot(machine, code);
  const named = { ...expected[0], name: "web.test" };
  expect((await probe().eventsNow(machine)).map(withoutCounts)).toContainEqual(named);
  const { policy, notes } = suggestPolicy(await probe().events(machine));
  expect(policy.allowedCidrs).toEqual([]);
  expect(notes).toContain(`${webAddress} is refused under every policy: no policy lets IP protocol 47 out`);
});

test.for<[string, string]>([
  ['NFT_LOG="nothing"', "rules that log"],
  ["NFLOG_SUBSYSTEM=255", "listeners of its log"],
])("a kernel without %s (%s) refuses and allows as any other, but without a log", async ([defined]) => {
  await using stack = new AsyncDisposableStack();
  const other = await Probe.start(stack, internet().host, { defined: [defined] });
  await other.add("a");
  const code = `attempt("web", lambda: web("${webAddress}"))`;
  expect(await other.python("a", code)).toBe("web: ECONNREFUSED");
  await other.order("allow", "a");
  expect(await other.python("a", code)).toBe("web: page for x");
  const old = other.pid;
  await other.restart();
  // Until its end it accepts connections too, and resets them then.
  await eventually("the old netd is gone", () => !alive(old));
  expect(await other.python("a", code)).toBe("web: page for x");
  const events = await other.eventsNow("a");
  expect(events.filter(({ rule }) => rule === "deny-all")).toEqual([]);
  expect(events.map(({ allowed }) => allowed)).not.toContain(false);
});

/** each decision once: if the log was written in between, the same one has another line */
function decisionsIn(events: LogLine[]) {
  const all = events.map(withoutCounts);
  return all.filter((one, index) => all.findIndex((other) => isDeepStrictEqual(one, other)) === index);
}

function withoutCounts({ id, at, count, ended, bytesIn, bytesOut, ...decision }: LogLine) {
  return decision;
}

function byDomain(one: { domain: string }, other: { domain: string }): number {
  return one.domain < other.domain ? -1 : 1;
}

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
