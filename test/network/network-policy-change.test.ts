/** A policy that changes while connections are open, and stays in force when a process dies. */

import { describe, expect, test } from "vitest";
import type { CustomNetwork } from "../../src/core/network/network-policy.ts";
import { certificateOf, deriveAuthority } from "../../src/egress/intercept/authority.ts";
import { eventually } from "../harness/harness.ts";
import { linesOf } from "../internet/internet.ts";
import { evilAddress, otherAddress, webAddress, webAddress6 } from "../internet/internet-names.ts";
import { internetCertificate } from "../internet/internet-tls.ts";
import { allow, probeOfFile } from "../internet/network-probe.ts";
import { watchWire } from "../internet/wire-watch.ts";

const authority = deriveAuthority(Buffer.alloc(32, "test"), "sandbox");
const { undo, internet, probe, added, under } = probeOfFile(["the command python3", "the command tcpdump"], {
  roots: [internetCertificate],
});

/** opens these connections; then prints, at each line of input, which of them still echo */
const opened = (connections: Record<string, string>) => `
open = {${Object.entries(connections)
  .map(([name, code]) => `"${name}": ${code}`)
  .join(", ")}}
for s in open.values(): echo(s, b"hello")
print("open", flush=True)
for line in sys.stdin:
    for name, s in open.items(): attempt(name, lambda: echo(s, b"again"))
    print("asked", flush=True)
`;

describe("open connections", () => {
  test("stay open if they are still allowed, and otherwise are cut before the change is acknowledged", async () => {
    const machine = await under({ domains: allow("web.test", "other.test"), allowedCidrs: [`${evilAddress}/32`] });
    const ask = await spawned(
      machine,
      opened({
        kept: `tls(socket.gethostbyname("web.test"), "web.test", 7443)`,
        name: `tls(socket.gethostbyname("other.test"), "other.test", 7443)`,
        address: `tcp("${evilAddress}", 7)`,
        datagrams: `udp("${evilAddress}", 7)`,
      }),
    );
    await probe().policy(machine, { domains: allow("web.test") });
    const watch = await watchWire(undo, internet());
    expect(await ask()).toEqual([
      "kept: again",
      expect.stringMatching(/^name: (ECONNRESET|EPIPE)/),
      expect.stringMatching(/^address: (ECONNRESET|EPIPE)/),
      "datagrams: EHOSTUNREACH",
    ]);
    const others = (await watch.packets()).filter((packet) => !packet.includes(`${webAddress}.7443`));
    expect(others).toEqual([]);
    // Its echoes to the subnet: five bytes each way, of TCP and of UDP.
    await eventually("bytes are counted", async () => {
      expect((await probe().hosts(machine))[evilAddress]).toEqual({ bytesIn: 10, bytesOut: 10, count: 2 });
      return true;
    });
  });

  test("of a machine that could reach everything are checked against its first policy", async () => {
    const machine = await added();
    await probe().order("allow", machine);
    const ask = await spawned(
      machine,
      opened({
        kept: `tls(socket.gethostbyname("web.test"), "web.test", 7443)`,
        name: `tls(socket.gethostbyname("other.test"), "other.test", 7443)`,
        plain: `tcp("${webAddress}", 7)`,
        datagrams: `udp("${webAddress6}", 7)`,
        subnet: `tcp("${evilAddress}", 7)`,
        "datagrams of subnet": `udp("${evilAddress}", 7)`,
      }),
    );
    await probe().policy(machine, { domains: allow("web.test"), allowedCidrs: [`${evilAddress}/32`] });
    expect(await ask()).toEqual([
      "kept: again",
      expect.stringMatching(/^name: (ECONNRESET|EPIPE)/),
      "plain: ECONNRESET",
      "datagrams: EACCES",
      "subnet: again",
      "datagrams of subnet: again",
    ]);
  });

  test("all end with deny-all, and everything is open again after allow-all", async () => {
    const machine = await under({ allowedCidrs: [`${webAddress}/32`] });
    const ask = await spawned(machine, opened({ tcp: `tcp("${webAddress}", 7)`, udp: `udp("${webAddress}", 7)` }));
    await probe().order("deny", machine);
    await probe().order("cut", machine);
    probe().link.drop(machine);
    const watch = await watchWire(undo, internet());
    expect(await ask()).toEqual([expect.stringMatching(/^tcp: (ECONNRESET|EPIPE)/), "udp: EPERM"]);
    expect(await watch.packets()).toEqual([]);
    await probe().order("allow", machine);
    const code = `
attempt("http", lambda: web("${otherAddress}"))
attempt("udp", lambda: echo(udp("${otherAddress}", 7), b"hello"))
`;
    await eventually(
      "the policy is gone",
      async () => (await probe().python(machine, code)) === "http: page for x\nudp: hello",
    );
  });

  test("whose TLS is opened are cut when their rules change", async () => {
    const machine = await under({ domains: setting("one"), authority });
    const code = `
TRUST = """${certificateOf(authority)}"""
def header(s):
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n"); data = b""
    while not data.endswith(b"}"):
        chunk = s.recv(65536)
        if not chunk: raise ConnectionResetError(errno.ECONNRESET, "closed")
        data += chunk
    return json.loads(data.decode().split("\\r\\n\\r\\n", 1)[1])["headers"].get("x-secret")
s = tls(socket.gethostbyname("web.test"), "web.test", trust=TRUST)
attempt("first", lambda: header(s)); print("open", flush=True)
for line in sys.stdin:
    attempt("old", lambda: header(s))
    attempt("new", lambda: header(tls(socket.gethostbyname("web.test"), "web.test", trust=TRUST)))
    print("asked", flush=True)
`;
    const child = probe().spawn(undo, machine, code);
    const said = linesOf(child);
    expect([await said(), await said()]).toEqual(["first: one", "open"]);
    await probe().policy(machine, { domains: setting("two"), authority });
    child.stdin?.write("\n");
    expect([await said(), await said()]).toEqual([expect.stringMatching(/^old: (ECONNRESET|EPIPE)/), "new: two"]);
    const rule = "allow web.test, rule 1: set-headers";
    const request = await eventually("the request is in the log", async () =>
      (await probe().events(machine)).find(({ protocol }) => protocol === "https"),
    );
    expect(request).toMatchObject({ name: "web.test", method: "GET", path: "/", status: 200, allowed: true, rule });
    await eventually("bytes are counted", async () => {
      expect((await probe().hosts(machine))["web.test"]?.bytesIn).toBeGreaterThan(500);
      return true;
    });
  });
});

describe("when a part dies", () => {
  const code = `
attempt("allowed", lambda: https("web.test", "${webAddress}"))
attempt("refused", lambda: https("other.test", "${otherAddress}"))
`;
  const served = "allowed: web.test\nrefused: TLSV1_ALERT_ACCESS_DENIED";

  test("a new egress process gets the policy again, and lets nothing through before that", async () => {
    const machine = await under({ domains: allow("web.test") });
    expect(await probe().python(machine, code)).toBe(served);
    await probe().replaceEgress();
    expect(await probe().python(machine, code)).toBe(served);
    // Without a daemon it gets no policy: nothing gets out, whatever was allowed before.
    probe().link.close();
    await probe().replaceEgress();
    const watch = await watchWire(undo, internet());
    expect(
      (await probe().python(machine, `attempt("tls", lambda: https("web.test", "${webAddress}"))`)).replace(
        " SLOW",
        "",
      ),
    ).toBe("tls: TLSV1_ALERT_ACCESS_DENIED");
    expect(await watch.packets()).toEqual([]);
    await probe().relink();
    await probe().policy(machine, { domains: allow("web.test") });
    expect(await probe().python(machine, code)).toBe(served);
  });

  test("policies stay in force without a daemon, and the next daemon changes them", async () => {
    const machine = await under({ domains: allow("web.test") });
    probe().link.close();
    expect(await probe().python(machine, code)).toBe(served);
    await probe().relink();
    probe().link.keep([machine]);
    expect(await probe().python(machine, code)).toBe(served);
    await probe().policy(machine, { domains: allow("other.test") });
    expect(await probe().python(machine, code)).toBe("allowed: TLSV1_ALERT_ACCESS_DENIED\nrefused: other.test");
  });

  test("a new netd knows which machines have a policy", async () => {
    const machine = await under({ domains: allow("web.test") });
    await probe().restart();
    expect(await probe().python(machine, code)).toBe(served);
  });
});

/** a program that prints "open", and after each line of input its results and "asked" */
async function spawned(machine: string, code: string): Promise<() => Promise<string[]>> {
  const child = probe().spawn(undo, machine, code);
  const said = linesOf(child);
  expect(await said()).toBe("open");
  return async () => {
    child.stdin?.write("\n");
    const lines: string[] = [];
    for (let line = await said(); line !== "asked"; line = await said()) lines.push(line);
    return lines;
  };
}

function setting(value: string): CustomNetwork["domains"] {
  return [{ domain: "web.test", rules: [{ action: { kind: "set-headers", headers: { "x-secret": value } } }] }];
}
