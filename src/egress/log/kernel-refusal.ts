/** The log's entry for a packet that the kernel refused by itself, before it reached this process. */

import { hostOfQuestion } from "../../core/network/network-policy.ts";
import type { EgressCause, EgressDecision } from "../../protocols/egress-log.ts";
import type { RefusedPacket } from "../../protocols/netd-channel.ts";
import { isResolver } from "../dns/dns.ts";
import { questionAsked } from "../dns/questions.ts";
import type { AddressRules } from "../policy/addresses.ts";
import { customPolicy, judge, judgeName, type Verdict } from "../policy/policy.ts";

/** `name` is what led the sandbox to the address, if anything did */
export function decisionOf(refused: RefusedPacket, addresses: AddressRules, name?: string): EgressDecision {
  const { address, port } = refused;
  const protocol = protocols[refused.protocol] ?? "other";
  const where = { ...(name !== undefined && { name }), address };
  if (protocol === "icmp" || protocol === "other") {
    const what = protocol === "icmp" ? "ICMP" : `IP protocol ${refused.protocol}`;
    const reason = `no policy lets ${what} out`;
    return { protocol, ...where, allowed: false, reason, cause: { kind: "unsupported" } };
  }
  if (!isResolver(refused)) {
    return { protocol, ...where, port, ...denied(judge(nothing, { protocol, address, port }, addresses)) };
  }
  // The kernel refuses the connection, so that what would have been asked on it is not known.
  const question = protocol === "udp" ? questionAsked(refused.packet) : undefined;
  if (!question) return { protocol: "dns", address, port, ...denied() };
  return { protocol: "dns", ...question, ...denied(judgeName(nothing, hostOfQuestion(question.name, question.type))) };
}

/** IP's numbers */
const protocols: Record<number, "tcp" | "udp" | "icmp"> = { 1: "icmp", 6: "tcp", 17: "udp", 58: "icmp" };

/** the same as deny-all, so that its verdicts say what would have to be allowed */
const nothing = customPolicy({ mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [] });

/** what no policy could allow says so itself */
function denied(verdict?: Verdict): Pick<EgressDecision, "allowed" | "rule" | "reason" | "cause" | "missing"> {
  const cause: EgressCause = { kind: "deny-all" };
  const why = { allowed: false, rule: "deny-all", reason: "the policy is deny-all", cause };
  if (!verdict || verdict.allowed) return why;
  const { reason, missing } = verdict;
  return missing ? { ...why, missing } : { allowed: false, reason, cause: verdict.cause };
}
