/** The network of a session's machine, made from its policy. Secrets are decrypted here and go only to the machine. */

import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import type { MachineNetwork } from "../ports/runtime.ts";
import { allowsNothing, forwards, hasRules, type NetworkPolicy, openPolicy } from "./network-policy.ts";

/** `policy` is the stored one, with sealed header values */
export function networkOf(
  { seal, networkSecrets }: Context,
  session: Session,
  policy: NetworkPolicy = session.networkPolicy,
): MachineNetwork {
  if (policy.mode === "allow-all") return "allow-all";
  const opened = openPolicy(policy, seal.open);
  if (opened.mode !== "custom" || allowsNothing(opened)) return "deny-all";
  if (!hasRules(opened) || !networkSecrets) return opened;
  const authority = networkSecrets.authorityOf(session);
  return forwards(opened)
    ? { ...opened, authority, identity: networkSecrets.identityOf(session) }
    : { ...opened, authority };
}
