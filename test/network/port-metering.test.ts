/**
 * Traffic through the ports of a machine, counted twice: by the kernel's counters in its ruleset and by a capture of
 * every packet in its network. Programs inside try to make the counters too low.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { bootFor } from "../conformance/runtime/host.ts";
import { python, start, until } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { agentPid, linuxHost } from "../harness/linux-host.ts";
import { ended, inNetworkOf, linesOf } from "../internet/internet.ts";

const host = linuxHost();

/** a server that reads all bytes of a connection, then answers with three times as many */
const server = `
import socket, threading, sys
def serve(family, address, port, options):
    l = socket.socket(family); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for o in options: l.setsockopt(*o)
    l.bind((address, port)); l.listen(64)
    def one(c):
        n = 0
        while d := c.recv(65536): n += len(d)
        c.sendall(b"x" * 3 * n); c.close()
    def accept():
        while True:
            c, peer = l.accept()
            for o in options: c.setsockopt(*o)
            print(port, peer[0], flush=True)
            threading.Thread(target=one, args=(c,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
`;

test.each(["allow-all", "deny-all"] as const)("under %s every packet through a port is counted", async (network) => {
  const machine = await bootFor(host(), { network });
  const program = `${server}
serve(socket.AF_INET, "127.0.0.1", 3001, [])
serve(socket.AF_INET6, "::1", 3002, [])
serve(socket.AF_INET6, "::", 3003, [])
serve(socket.AF_INET, "127.0.0.1", 3004, [])
print("up", flush=True); threading.Event().wait()`;
  const command = await start(machine, ["python3", "-u", "-c", program]);
  await until(command.output(), "up\n");
  const tap = await watch(machine, [3001, 3002, 3003, 3005]);
  for (const port of [3001, 3002, 3003]) {
    for (const length of [1, 1000, 700_000]) expect(await exchange(machine, port, length)).toBe(3 * length);
  }
  await expect(machine.connect(3005)).rejects.toMatchObject({ code: "conflict" });
  // Traffic between programs inside is not counted.
  await python(machine, `import socket; s = socket.create_connection(("127.0.0.1", 3004)); s.sendall(b"x" * 99)`);
  const { received, sent } = await tap();
  expect((await machine.usage()).network).toEqual({ received, sent });
  expect(received).toBeGreaterThan(3 * 701_001);
  expect(sent).toBeGreaterThan(9 * 701_001);
  // Requests come from the loopback address, like those of any program of the same machine.
  const seen = await until(command.output(), "3003 ::ffff:127.0.0.1");
  expect([...new Set(seen.split("\n").filter((line) => /^300[123] /.test(line)))]).toEqual([
    "3001 127.0.0.1",
    "3002 ::1",
    "3003 ::ffff:127.0.0.1",
  ]);
});

test("connections that are cut off, by either side and with bytes on their way, are counted as well", async () => {
  const machine = await bootFor(host());
  const program = `
import socket, struct
l = socket.create_server(("127.0.0.1", 3001)); print("up", flush=True)
while True:
    c, _ = l.accept(); word = c.recv(1)
    if word == b"r": c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)) # a reset
    if word == b"c":
        try:
            while True: c.sendall(b"x" * 65536)
        except OSError: pass
    c.close()`;
  const command = await start(machine, ["python3", "-u", "-c", program]);
  await until(command.output(), "up\n");
  const tap = await watch(machine, [3001]);
  for (const word of ["r", "e"]) {
    const stream = await machine.connect(3001);
    stream.on("error", () => stream.destroy());
    stream.write(word + "y".repeat(300_000));
    await text(stream.on("end", () => stream.end())).catch(() => undefined);
  }
  const cut = await machine.connect(3001);
  cut.write("c");
  await new Promise((resolve) => cut.once("data", resolve));
  cut.destroy();
  const { received, sent } = await tap();
  const { network } = await machine.usage();
  expect(network.received + network.sent).toBe(received + sent);
  // A reset for a closed socket has the mark of the packet that it answers, so ours may be counted as sent.
  expect((network.sent - sent) % resetLength).toBe(0);
  expect(network.sent - sent).toBeGreaterThanOrEqual(0);
  expect(network.sent - sent).toBeLessThan(50 * resetLength);
});

/** length of a packet with only a reset, in bytes */
const resetLength = 40;

test("a server that sets the type of service and the hop limit of counted packets is counted all the same", async () => {
  const machine = await bootFor(host());
  const program = `${server}
serve(socket.AF_INET, "127.0.0.1", 3001, [(socket.IPPROTO_IP, socket.IP_TOS, 204), (socket.IPPROTO_IP, socket.IP_TTL, 255)])
serve(socket.AF_INET6, "::1", 3002, [(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 204), (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)])
print("up", flush=True); threading.Event().wait()`;
  const command = await start(machine, ["python3", "-u", "-c", program]);
  await until(command.output(), "up\n");
  const tap = await watch(machine, [3001, 3002]);
  for (const port of [3001, 3002]) expect(await exchange(machine, port, 100_000)).toBe(300_000);
  const { received, sent } = await tap();
  expect((await machine.usage()).network).toEqual({ received, sent });
});

test.each([
  ["127.0.0.1", "tcp", "socket.AF_INET", "IP_TOS", "IP_TTL", "IPPROTO_IP"],
  ["::1", "tcp6", "socket.AF_INET6", "IPV6_TCLASS", "IPV6_UNICAST_HOPS", "IPPROTO_IPV6"],
])(
  "a program at %s that connects to us while we connect to it, instead of accepting, is ignored",
  async (address, table, family, service, hops, level) => {
    const machine = await bootFor(host());
    const [first, last] = [40_000, 40_015];
    // The ports that we may connect from are known, and nothing answers connections to them.
    await inside(
      machine,
      `open("/proc/sys/net/ipv4/ip_local_port_range", "w").write("${first} ${last}")
rule = "add table inet test; add chain inet test in { type filter hook input priority 0; }; add rule inet test in tcp sport 3000 tcp flags & (syn | ack | rst) == syn drop"
assert os.system(f"nft '{rule}'") == 0`,
    );
    const program = `
import socket, select
all = []
for port in range(${first}, ${last + 1}):
    s = socket.socket(${family}); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.${level}, socket.${service}, 204); s.setsockopt(socket.${level}, socket.${hops}, 255)
    s.bind(("${address}", 3000)); s.setblocking(False); s.connect_ex(("${address}", port)); all.append(s)
print("up", flush=True)
while True:
    _, ready, _ = select.select([], all, [])
    for s in ready:
        try: s.send(b"for nothing"); print("sent", flush=True)
        except OSError as e: print(e, flush=True)
        all.remove(s); s.close()`;
    const command = await start(machine, ["python3", "-u", "-c", program]);
    await until(command.output(), "up\n");
    const connected = machine.connect(3000).then(
      (stream) => {
        stream.destroy();
        return "connected";
      },
      () => "refused",
    );
    // SYN_RECV: our SYN has reached a socket that does not listen, and its answer has not reached us.
    const ignored = eventually("its answer is ignored", async () => {
      const states = await inside(machine, `print(open("/proc/net/${table}").read())`);
      return / [0-9A-F]+:0BB8 [0-9A-F]+:9C4[0-9A-F] 03 /.test(states) ? "ignored" : undefined;
    });
    expect(await Promise.race([connected, ignored])).toBe("ignored");
  },
);

/** sends so many bytes to a port; returns how many came back */
async function exchange(machine: Machine, port: number, length: number): Promise<number> {
  const stream = await machine.connect(port);
  stream.end("y".repeat(length));
  return (await text(stream)).length;
}

interface Captured {
  received: number;
  sent: number;
}

/** captures what passes to and from these ports, until it is asked for; every connection must have ended by then */
async function watch(machine: Machine, ports: number[]): Promise<() => Promise<Captured>> {
  const code = `
# Several packets may pass the ruleset as one, which is counted with one header: here each is to pass by itself.
assert os.system("ip link set dev lo gso_max_segs 1") == 0
tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
tap.setsockopt(socket.SOL_SOCKET, 33, 256 << 20) # SO_RCVBUFFORCE
tap.bind(("lo", 0))
print("ready", flush=True); sys.stdin.readline()
def open_connections():
    lines = [line.split()[3] for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
    return [state for state in lines if state not in ("06", "0A")] # TIME_WAIT, LISTEN
while open_connections(): time.sleep(0.01)
tap.setblocking(False)
ports = ${JSON.stringify(ports)}; totals = {"received": 0, "sent": 0}
while True:
    try: packet, (_, _, kind, _, _) = tap.recvfrom(1 << 20)
    except BlockingIOError: break
    if kind == 4: continue # each is seen leaving and arriving
    body = packet[40:] if packet[0] >> 4 == 6 else packet[(packet[0] & 15) * 4:]
    source, destination = struct.unpack(">HH", body[:4])
    if destination in ports: totals["received"] += len(packet)
    elif source in ports: totals["sent"] += len(packet)
print(json.dumps(totals), flush=True)`;
  const tap = enter(machine, code);
  const line = linesOf(tap);
  expect(await line()).toBe("ready");
  return async () => {
    tap.stdin?.end("\n");
    return JSON.parse(await line());
  };
}

/** runs Python in the machine's network, as the host's root; returns what it printed */
async function inside(machine: Machine, code: string): Promise<string> {
  const child = enter(machine, code);
  const [said, status] = await Promise.all([
    child.stdout && text(child.stdout),
    new Promise((resolve) => child.once("exit", resolve)),
  ]);
  expect(status).toBe(0);
  return said ?? "";
}

function enter(machine: Machine, code: string): ChildProcess {
  const imports = "import json, os, socket, struct, sys, time\n";
  const command = inNetworkOf(agentPid(host(), machine.id), "python3", "-c", imports + code);
  const child = spawn(...command, { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => ended(child));
  return child;
}
