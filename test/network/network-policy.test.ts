/** What a custom policy lets through and what it refuses, sentence by sentence, against a private internet. */

import { describe, expect, test } from "vitest";
import { eventually } from "../harness/harness.ts";
import { evilAddress, otherAddress, otherAddress6, webAddress, webAddress6 } from "../internet/internet-names.ts";
import { allow, lines, Probe, probeOfFile } from "../internet/network-probe.ts";
import { watchWire } from "../internet/wire-watch.ts";

const { undo, internet, probe, under } = probeOfFile(["the command python3", "the command tcpdump"]);

describe("a domain", () => {
  test("is reached over TLS by its name, over IPv4 and IPv6, and nothing else is", async () => {
    const machine = await under({ domains: allow("web.test", "web6.test") });
    expect(
      await probe().python(
        machine,
        `
attempt("allowed", lambda: https("web.test"))
attempt("allowed6", lambda: https("web6.test", socket.getaddrinfo("web6.test", 443)[0][4][0]))
attempt("upper case", lambda: https("WEB.test"))
attempt("other name", lambda: https("other.test"))
attempt("other name at its address", lambda: https("other.test", "${otherAddress}"))
attempt("other name at the allowed address", lambda: https("other.test", "${webAddress}"))
attempt("no name", lambda: tls("${webAddress}", None))
`,
      ),
    ).toBe(
      lines(
        "allowed: web.test",
        "allowed6: web6.test",
        "upper case: WEB.test",
        "other name: NONAME",
        "other name at its address: TLSV1_ALERT_ACCESS_DENIED",
        "other name at the allowed address: TLSV1_ALERT_ACCESS_DENIED",
        "no name: TLSV1_ALERT_ACCESS_DENIED",
      ),
    );
  });

  test('"*.other.test" matches every depth below it and not itself', async () => {
    const machine = await under({ domains: allow("*.other.test") });
    const code = `
attempt("below", lambda: https("a.other.test"))
attempt("itself", lambda: https("other.test"))
attempt("itself by address", lambda: https("other.test", "${otherAddress}"))
attempt("name that ends alike", lambda: https("another.test", "${otherAddress}"))
`;
    expect(await probe().python(machine, code)).toBe(
      lines(
        "below: a.other.test",
        "itself: NONAME",
        "itself by address: TLSV1_ALERT_ACCESS_DENIED",
        "name that ends alike: TLSV1_ALERT_ACCESS_DENIED",
      ),
    );
  });

  test('"www.*.test" matches exactly one label', async () => {
    const machine = await under({ domains: allow("www.*.test") });
    const code = `
attempt("one", lambda: https("www.shop.test"))
attempt("two", lambda: https("www.far.shop.test", "${otherAddress}"))
attempt("none", lambda: https("web.test", "${webAddress}"))
`;
    const denied = "TLSV1_ALERT_ACCESS_DENIED";
    expect(await probe().python(machine, code)).toBe(lines("one: www.shop.test", `two: ${denied}`, `none: ${denied}`));
  });

  const everything = `
attempt("tls", lambda: https("web.test"))
attempt("elsewhere", lambda: https("web.test", "${evilAddress}"))
attempt("plain", lambda: web("${webAddress}"))
attempt("plain6", lambda: web("${webAddress6}"))
attempt("other protocol", lambda: echo(tcp("${webAddress}", 7), b"hello"))
attempt("datagrams", lambda: echo(udp("${webAddress}", 7), b"hello"))
attempt("private", lambda: "SANDKEEP_EGRESS_ALLOW" in web("10.9.9.9"))
`;

  test('"*" allows everything public, plain HTTP and datagrams too, except denied subnets', async () => {
    const machine = await under({ domains: allow("*"), deniedCidrs: [`${otherAddress}/32`] });
    expect(await probe().python(machine, everything)).toBe(
      lines(
        "tls: web.test",
        "elsewhere: web.test",
        "plain: page for x",
        "plain6: page for x",
        "other protocol: hello",
        "datagrams: hello",
        "private: True",
      ),
    );
    const denied = `attempt("denied", lambda: "egress_denied" in web("${otherAddress}"))`;
    expect(await probe().python(machine, denied)).toBe("denied: True");
  });

  test('"*" beside a domain with rules does not bypass the rules, and opens everything else', async () => {
    const rules = [{ action: { kind: "respond" as const, status: 403 } }];
    const machine = await under({ domains: [...allow("*"), { domain: "web.test", rules }] });
    const code = `
def plain(address, host):
    s = tcp(address, 80); s.sendall(f"GET / HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n".encode())
    page = all_of(s).decode().split("\\r\\n\\r\\n")[1]
    return json.loads(page)["error"]["reason"] if "egress_denied" in page else page
attempt("ruled", lambda: plain("${webAddress}", "web.test"))
attempt("ruled with a port", lambda: plain("${webAddress}", "WEB.test:80"))
attempt("other", lambda: plain("${otherAddress}", "other.test"))
attempt("other protocol", lambda: echo(tcp("${otherAddress}", 7), b"hello"))
attempt("datagrams", lambda: echo(udp("${otherAddress}", 7), b"hello"))
attempt("tls", lambda: https("other.test"))
`;
    const around = 'plain HTTP would go around the rules for "web.test": use https';
    expect(await probe().python(machine, code)).toBe(
      lines(
        `ruled: ${around}`,
        `ruled with a port: ${around}`,
        "other: page for other.test",
        "other protocol: hello",
        "datagrams: EHOSTUNREACH",
        "tls: other.test",
      ),
    );
  });

  test("cannot be reached over plain HTTP, and a page says what is missing", async () => {
    const machine = await under({ domains: allow("web.test") });
    const code = `
s = tcp("${webAddress}", 80); s.sendall(b"GET /a?b HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n")
print(all_of(s).decode())
`;
    const [head = "", body = ""] = (await probe().python(machine, code)).split(/\r\n\r\n|\n\n/, 2);
    expect(head).toMatch(/^HTTP\/1.1 403 Forbidden/);
    expect(JSON.parse(body)).toEqual({
      error: {
        code: "egress_denied",
        message: `Cannot GET http://web.test/a: the policy does not allow ${webAddress}: plain HTTP is allowed by subnet only; add "${webAddress}/32" to "subnets.allow", or use https and allow its name`,
        reason: `the policy does not allow ${webAddress}: plain HTTP is allowed by subnet only`,
        host: "web.test",
        address: webAddress,
        port: 80,
        method: "GET",
        path: "/a",
        missing: { subnets: { allow: [`${webAddress}/32`] } },
      },
    });
  });

  test("is reached through an alias, and by TLS after PostgreSQL's request for TLS", async () => {
    const machine = await under({ domains: allow("alias.test", "web.test") });
    const code = `
def postgres(name, address):
    s = tcp(address, 5432); s.sendall(bytes.fromhex("0000000804d21630")); gss = s.recv(1)
    s.sendall(bytes.fromhex("0000000804d2162f")); answer = s.recv(1)
    c = ssl.create_default_context(cadata=CA).wrap_socket(s, server_hostname=name); return gss, answer, echo(c, b"hello")
attempt("alias", lambda: https("alias.test"))
attempt("postgres", lambda: postgres("web.test", "${webAddress}"))
attempt("postgres elsewhere", lambda: postgres("other.test", "${otherAddress}"))
attempt("no ssl", lambda: (lambda s: (s.sendall(bytes.fromhex("0000000900030000")), s.recv(1)))(tcp("${webAddress}", 5432)))
`;
    expect(await probe().python(machine, code)).toBe(
      lines(
        "alias: alias.test",
        "postgres: (b'N', b'S', 'hello')",
        "postgres elsewhere: TLSV1_ALERT_ACCESS_DENIED",
        "no ssl: ECONNRESET",
      ),
    );
  });
});

describe("subnets", () => {
  test("in an allow list alone open their addresses to every protocol, datagrams too, and every name resolves", async () => {
    const machine = await under({ allowedCidrs: [`${webAddress}/32`, `${webAddress6}/128`] });
    const code = `
attempt("http", lambda: web("${webAddress}"))
attempt("http6", lambda: web("${webAddress6}"))
attempt("tls of any name", lambda: https("other.test", "${webAddress}"))
attempt("tls without a name", lambda: tls("${webAddress}", None))
attempt("udp", lambda: echo(udp("${webAddress}", 7), b"hello"))
attempt("udp6", lambda: echo(udp("${webAddress6}", 7), b"hello"))
attempt("name", lambda: socket.gethostbyname("other.test"))
attempt("elsewhere", lambda: https("other.test"))
attempt("udp elsewhere", lambda: echo(udp("${otherAddress}", 7), b"hello"))
attempt("udp6 elsewhere", lambda: echo(udp("${otherAddress6}", 7), b"hello"))
`;
    expect(await probe().python(machine, code)).toBe(
      lines(
        "http: page for x",
        "http6: page for x",
        "tls of any name: other.test",
        // the server's own answer to a hello without a name
        "tls without a name: SSLV3_ALERT_HANDSHAKE_FAILURE",
        "udp: hello",
        "udp6: hello",
        `name: ${otherAddress}`,
        "elsewhere: TLSV1_ALERT_ACCESS_DENIED",
        "udp elsewhere: EHOSTUNREACH",
        "udp6 elsewhere: EACCES",
      ),
    );
  });

  test("that are denied beat allowed ones, which beat domains", async () => {
    const machine = await under({
      domains: allow("web.test", "other.test"),
      allowedCidrs: ["93.184.216.0/24", "2606:2800::/32"],
      deniedCidrs: [`${webAddress}/32`, `${webAddress6}/128`],
    });
    const code = `
attempt("denied", lambda: https("web.test"))
attempt("denied6", lambda: https("web.test", "${webAddress6}"))
attempt("denied http", lambda: "egress_denied" in web("${webAddress}"))
attempt("denied udp", lambda: echo(udp("${webAddress}", 7), b"hello"))
attempt("allowed http", lambda: web("${otherAddress}"))
attempt("allowed http6", lambda: web("${otherAddress6}"))
`;
    expect(await probe().python(machine, code)).toBe(
      lines(
        "denied: TLSV1_ALERT_ACCESS_DENIED",
        "denied6: TLSV1_ALERT_ACCESS_DENIED",
        "denied http: True",
        "denied udp: EHOSTUNREACH",
        "allowed http: page for x",
        "allowed http6: page for x",
      ),
    );
  });

  test("may name private addresses, the host's own and link-local ones, which only the operator opens", async () => {
    const host = "93.184.217.2";
    const code = `
def web(address, port=80, plain=web): page = plain(address, port); return "403" if "egress_denied" in page else page
attempt("private", lambda: web("10.9.9.9"))
attempt("other private", lambda: web("192.168.7.7"))
attempt("private6", lambda: web("fd12::1"))
attempt("metadata", lambda: web("169.254.169.254"))
attempt("resolver", lambda: web("198.18.0.1"))
attempt("host", lambda: web("${host}", 9))
attempt("name", lambda: socket.gethostbyname("private.test"))
`;
    const named = ["10.9.9.9/32", "192.168.0.0/16", "fd00::/8", "169.254.169.254/32", `${host}/32`, "198.18.0.0/15"];
    for (const allowedCidrs of [["0.0.0.0/0", "::/0"], named]) {
      expect(await probe().python(await under({ allowedCidrs }), code)).toBe(
        lines(
          "private: 403",
          "other private: 403",
          "private6: 403",
          "metadata: 403",
          "resolver: 403",
          "host: 403",
          "name: NONAME",
        ),
      );
    }
    await using stack = new AsyncDisposableStack();
    const settings = { allow: ["10.9.0.0/16", "169.254.169.254", "93.184.217.0/24"] };
    const other = await Probe.start(stack, internet().host, { settings });
    await other.add("narrow");
    await other.policy("narrow", { allowedCidrs: ["10.9.9.9/32", `${host}/32`] });
    expect(await other.python("narrow", code)).toBe(
      lines(
        "private: page for x",
        "other private: 403",
        "private6: 403",
        "metadata: 403",
        "resolver: 403",
        "host: 403",
        "name: 10.9.9.9",
      ),
    );
    await other.policy("narrow", { allowedCidrs: ["169.254.0.0/16"] });
    expect(await other.python("narrow", code)).toContain("metadata: page for x");
  });
});

test("every decision is in the log, and bytes are counted by host", async () => {
  const machine = await under({ domains: allow("web.test"), deniedCidrs: [`${evilAddress}/32`] });
  await probe().python(
    machine,
    `
attempt("allowed", lambda: https("web.test"))
attempt("name", lambda: socket.gethostbyname("other.test"))
attempt("sni", lambda: https("other.test", "${otherAddress}"))
attempt("http", lambda: web("${evilAddress}"))
attempt("udp", lambda: echo(udp("${webAddress}", 443), b"hello"))
`,
  );
  const events = await eventually("all is written", async () => {
    const all = await probe().events(machine);
    return all.some(({ ended }) => ended > 0) && all.some(({ protocol }) => protocol === "udp") ? all : undefined;
  });
  const of = (protocol: string, allowed: boolean) =>
    events.filter((event) => event.protocol === protocol && event.allowed === allowed);
  const [allowed] = of("tls", true);
  expect(allowed).toMatchObject({
    name: "web.test",
    sni: "web.test",
    address: webAddress,
    port: 443,
    rule: "allow web.test",
  });
  expect(of("dns", false)[0]).toMatchObject({ name: "other.test", reason: 'the policy does not allow "other.test"' });
  expect(of("tls", false)[0]).toMatchObject({ sni: "other.test", address: otherAddress, port: 443 });
  expect(of("http", false)[0]).toMatchObject({ method: "GET", path: "/", rule: `subnets.deny ${evilAddress}/32` });
  expect(of("udp", false)[0]).toMatchObject({ name: "web.test", address: webAddress, port: 443 });
  const [end] = events.filter(({ ended }) => ended > 0);
  expect(end?.bytesIn).toBeGreaterThan(1000);
  expect(end?.bytesOut).toBeGreaterThan(200);
  await eventually("bytes are counted", async () => {
    const counts = { bytesIn: end?.bytesIn, bytesOut: end?.bytesOut, count: 1 };
    expect(await probe().hosts(machine)).toEqual({ "web.test": counts });
    return true;
  });
  expect(events.map(({ id }) => id)).toEqual(events.map(({ id }) => id).toSorted((a, b) => a - b));
});

test("nothing of a refused connection reaches the internet(), not even the name", async () => {
  const machine = await under({ domains: allow("web.test") });
  const watch = await watchWire(undo, internet());
  await probe().python(
    machine,
    `
attempt("name", lambda: socket.gethostbyname("evil.test"))
attempt("sni", lambda: https("evil.test", "${evilAddress}"))
attempt("http", lambda: web("${evilAddress}"))
attempt("udp", lambda: echo(udp("${evilAddress}", 7), b"hello"))
`,
  );
  expect(await watch.packets()).toEqual([]);
});
