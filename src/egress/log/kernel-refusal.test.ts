/** What is written down of packets that the kernel has refused. */

import { encode } from "dns-packet";
import { expect, test } from "vitest";
import type { RefusedPacket } from "../../protocols/netd-channel.ts";
import { addressRules } from "../policy/addresses.ts";
import { decisionOf } from "./kernel-refusal.ts";

const addresses = addressRules({ allow: [], hostAddresses: () => ["93.184.216.1"] });
const denied = { allowed: false, rule: "deny-all", reason: "the policy is deny-all", cause: { kind: "deny-all" } };

test("a connection and a datagram say which subnet would have let them out", () => {
  expect(decision({ protocol: 6, address: "93.184.216.34", port: 443 })).toEqual({
    protocol: "tcp",
    address: "93.184.216.34",
    port: 443,
    ...denied,
    missing: { subnets: { allow: ["93.184.216.34/32"] } },
  });
  expect(decision({ protocol: 17, address: "2606:2800::1", port: 123 }, "time.test")).toEqual({
    protocol: "udp",
    name: "time.test",
    address: "2606:2800::1",
    port: 123,
    ...denied,
    missing: { subnets: { allow: ["2606:2800::1/128"] } },
  });
});

test("what no policy would allow says why, and nothing is missing", () => {
  const at = { protocol: "tcp", port: 80, allowed: false, cause: { kind: "special-address" } };
  expect(decision({ protocol: 6, address: "169.254.169.254", port: 80 })).toEqual({
    ...at,
    address: "169.254.169.254",
    reason: "169.254.169.254 is link-local (SANDKEEP_EGRESS_ALLOW=169.254.169.254/32 would open it)",
  });
  expect(decision({ protocol: 6, address: "93.184.216.1", port: 80 })).toEqual({
    ...at,
    address: "93.184.216.1",
    reason: "93.184.216.1 is the host's own (SANDKEEP_EGRESS_ALLOW=93.184.216.1/32 would open it)",
  });
  expect(decision({ protocol: 58, address: "2606:2800::1" })).toEqual({
    protocol: "icmp",
    address: "2606:2800::1",
    allowed: false,
    reason: "no policy lets ICMP out",
    cause: { kind: "unsupported" },
  });
  expect(decision({ protocol: 132, address: "93.184.216.34" }, "a.test")).toEqual({
    protocol: "other",
    name: "a.test",
    address: "93.184.216.34",
    allowed: false,
    reason: "no policy lets IP protocol 132 out",
    cause: { kind: "unsupported" },
  });
});

test("a question to the resolver is shown by its name, also where its end is missing", () => {
  const question = encode({
    type: "query",
    id: 1,
    questions: [{ type: "SRV", name: "_db._tcp.A.test" }],
    additionals: [
      {
        type: "OPT",
        name: ".",
        udpPayloadSize: 1232,
        extendedRcode: 0,
        ednsVersion: 0,
        flags: 0,
        flag_do: false,
        options: [],
      },
    ],
  });
  const asked = { protocol: "dns", name: "_db._tcp.a.test", type: "SRV", ...denied, missing: { allow: ["a.test"] } };
  for (const packet of [question, question.subarray(0, -5)]) {
    for (const address of ["198.18.0.1", "fd73:616e:646b::1"]) {
      expect(decision({ protocol: 17, address, port: 53, packet })).toEqual(asked);
    }
  }
  expect(decision({ protocol: 17, address: "93.184.216.34", port: 53, packet: question })).toMatchObject({
    protocol: "udp",
  });
});

test("what is no question to the resolver, or cannot be seen, has no name", () => {
  const at = { address: "198.18.0.1", port: 53 };
  for (const packet of [Buffer.alloc(0), Buffer.alloc(11), Buffer.alloc(12), Buffer.alloc(300, 0xff)]) {
    expect(decision({ protocol: 17, ...at, packet })).toEqual({ protocol: "dns", ...at, ...denied });
  }
  expect(decision({ protocol: 6, ...at })).toEqual({ protocol: "dns", ...at, ...denied });
});

function decision(fields: Partial<RefusedPacket>, name?: string) {
  const packet = Buffer.alloc(0);
  return decisionOf(
    { kind: "refused", id: 1, machine: "a", protocol: 6, address: "", port: 0, packet, ...fields },
    addresses,
    name,
  );
}
