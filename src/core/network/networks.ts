/** What the machine of a session is given of its network policy: secrets are opened here, and go to no other place. */

import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import type { MachineNetwork } from "../ports/runtime.ts";
import { allowsNothing, hasRules, type NetworkPolicy, openPolicy } from "./network-policy.ts";

/** `policy` is as it is stored, with its header values sealed */
export function networkOf(
  { seal, networkSecrets }: Context,
  session: Session,
  policy: NetworkPolicy = session.networkPolicy,
): MachineNetwork {
  if (policy.mode === "allow-all") return "allow-all";
  const opened = openPolicy(policy, seal.open);
  if (opened.mode !== "custom" || allowsNothing(opened)) return "deny-all";
  return { ...opened, ...(hasRules(opened) && networkSecrets?.of(session)) };
}
