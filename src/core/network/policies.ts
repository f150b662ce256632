/** Changes what a sandbox may reach, now and in its later sessions. */

import type { Context } from "../context.ts";
import type { Owner, Session } from "../model/sandbox.ts";
import { requirePolicy } from "../model/scope.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { type NetworkPolicy, openPolicy } from "./network-policy.ts";
import { withRulesOf } from "./policy-width.ts";

export class NetworkPolicies {
  readonly #context: Pick<Context, "seal">;
  readonly #sandboxes: Sandboxes;
  readonly #sessions: Sessions;

  constructor(context: Pick<Context, "seal">, sandboxes: Sandboxes, sessions: Sessions) {
    this.#context = context;
    this.#sandboxes = sandboxes;
    this.#sessions = sessions;
  }

  /** changes it at once, for this session and later ones; domains keep their rules */
  async change(owner: Owner, name: string, wanted: NetworkPolicy): Promise<Session> {
    const { sandbox, session } = await this.#sandboxes.get(owner, name);
    const current = openPolicy(session.networkPolicy, this.#context.seal.open);
    const policy = withRulesOf(wanted, current);
    // Check the sandbox's policy before changing either: the session may have a policy of its own.
    requirePolicy(owner, policy, openPolicy(sandbox.networkPolicy, this.#context.seal.open));
    const changed = await this.#sessions.setNetworkPolicy(owner, session.id, policy);
    await this.#sandboxes.update(owner, name, { networkPolicy: policy });
    return changed;
  }
}
