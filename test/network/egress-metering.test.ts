/**
 * Three counts of the same traffic: the kernel's counters in the sandbox's ruleset (whole packets), the egress process
 * (what programs wrote and read, by host), and a capture of every packet in the sandbox's network, which knows both.
 */

import { expect, test } from "vitest";
import { eventually } from "../harness/harness.ts";
import { blockLength, evilAddress, webAddress, webAddress6 } from "../internet/internet-names.ts";
import { probeOfFile } from "../internet/network-probe.ts";

const { probe } = probeOfFile(["the command python3"]);

/** what a capture in a sandbox's network has seen */
interface Captured {
  /** bytes of whole packets */
  sent: number;
  received: number;
  /** bytes without the headers, by address */
  hosts: Record<string, { bytesIn: number; bytesOut: number }>;
}

test("the kernel's counters are the bytes of all packets, and bytes by host are those inside them", async () => {
  await probe().admit("a");
  const before = await probe().counters("a");
  const captured = await capture(
    "a",
    `
s = tcp("${webAddress}", 9); s.sendall(b"x" * 3_000_001); s.shutdown(socket.SHUT_WR); all_of(s); s.close()
s = tcp("${webAddress6}", 19); s.sendall(b"40\\n"); all_of(s); s.close()
for address in ("${webAddress}", "${webAddress6}"):
    u = udp(address, 7)
    for n in range(20): echo(u, b"y" * (n * 97 + 1))
`,
  );
  const after = await probe().counters("a");
  expect({ sent: after.sent - before.sent, received: after.received - before.received }).toEqual({
    sent: captured.sent,
    received: captured.received,
  });
  const datagrams = 20 + (97 * 20 * 19) / 2;
  expect(captured.hosts).toEqual({
    [webAddress]: { bytesIn: 64 + datagrams, bytesOut: 3_000_001 + datagrams },
    [webAddress6]: { bytesIn: 40 * blockLength + datagrams, bytesOut: 3 + datagrams },
  });
  // A flow of datagrams is counted when it ends.
  await probe().order("cut", "a");
  const hosts = await eventually("all flows are counted", async () => {
    await probe().link.flush("a");
    const now = await probe().hosts("a");
    return Object.values(now).every(({ count }) => count === 2) ? now : undefined;
  });
  for (const [address, bytes] of Object.entries(captured.hosts)) expect(hosts[address]).toEqual({ ...bytes, count: 2 });
});

test("refused connections count as packets, and not for any host", async () => {
  await probe().add("b");
  await probe().policy("b", { allowedCidrs: [`${webAddress}/32`] });
  const captured = await capture(
    "b",
    `
for i in range(3): attempt("refused", lambda: web("${evilAddress}"))
s = tcp("${webAddress}", 9); s.sendall(b"x" * 1000); s.shutdown(socket.SHUT_WR); all_of(s); s.close()
`,
  );
  expect(captured.hosts[evilAddress]?.bytesIn).toBeGreaterThan(3 * 400);
  const { sent, received } = await probe().counters("b");
  expect({ sent, received }).toEqual({ sent: captured.sent, received: captured.received });
  await probe().link.flush("b");
  expect(await probe().hosts("b")).toEqual({ [webAddress]: { bytesIn: 64, bytesOut: 1000, count: 1 } });
});

test("answers of the kernel to datagrams for a closed socket are counted exactly", async () => {
  await probe().admit("c");
  const captured = await capture(
    "c",
    `
def unheard(): return int(open("/proc/net/snmp").read().split("\\nUdp: ")[2].split()[1])
for n in range(1, 6):
    while unheard() < n:
        u = udp("${webAddress}", 7); u.send(b"x" * 1000); u.close()
        until = time.monotonic() + 2
        while unheard() < n and time.monotonic() < until: time.sleep(0.005)
`,
  );
  const { sent, received } = await probe().counters("c");
  expect(received).toBeGreaterThanOrEqual(5 * 1000);
  expect({ sent, received }).toEqual({ sent: captured.sent, received: captured.received });
});

/** runs a program inside and counts every packet of it; returns when its connections are closed on both sides */
async function capture(machine: string, program: string): Promise<Captured> {
  const output = await probe().asRoot(
    machine,
    `
# Several packets may pass the ruleset as one, which is counted with one header: here each is to pass by itself.
assert os.system("ip link set dev lo gso_max_segs 1") == 0
tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
tap.setsockopt(socket.SOL_SOCKET, 33, 256 << 20) # SO_RCVBUFFORCE
tap.bind(("lo", 0))
${program}
u = None
def open_connections():
    lines = [line.split()[3] for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
    return [state for state in lines if state not in ("06", "0A")] # TIME_WAIT, LISTEN
while open_connections(): time.sleep(0.01)
tap.setblocking(False)
totals = {"sent": 0, "received": 0}; hosts = {}; begun = {}
while True:
    try: packet, (_, _, kind, _, _) = tap.recvfrom(1 << 20)
    except BlockingIOError: break
    if kind == 4: continue # each is seen leaving and arriving
    six = packet[0] >> 4 == 6
    a, b = (socket.inet_ntop(socket.AF_INET6, packet[at:at + 16]) for at in (8, 24)) if six else (socket.inet_ntoa(packet[at:at + 4]) for at in (12, 16))
    protocol = packet[6] if six else packet[9]
    if protocol not in (6, 17): continue
    inside = a in ("198.18.0.2", "fd73:616e:646b::2")
    totals["sent" if inside else "received"] += len(packet)
    host = hosts.setdefault(b if inside else a, {"bytesIn": 0, "bytesOut": 0})
    body = packet[40:] if six else packet[(packet[0] & 15) * 4:]
    ports, seq, flags = body[:4], int.from_bytes(body[4:8], "big"), body[13] if protocol == 6 else 0
    size = 0
    if protocol == 17: size = len(body) - 8
    # What was sent again counts once: the numbers of SYN and FIN say how much there was.
    elif flags & 2: begun[(a, b, ports)] = seq
    elif flags & 1 and (a, b, ports) in begun: size = (seq + len(body) - (body[12] >> 4) * 4 - begun.pop((a, b, ports)) - 1) % 2**32
    host["bytesOut" if inside else "bytesIn"] += size
print("CAPTURED" + json.dumps({**totals, "hosts": hosts}))
`,
  );
  return JSON.parse(output.split("CAPTURED")[1] ?? "");
}
