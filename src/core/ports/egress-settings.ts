/** What the operator says about the way out of all sandboxes, whatever the policy of each says. */

import type { ForwardHeaders } from "../model/conventions.ts";

export interface EgressSettings {
  /** ranges that sandboxes may reach although they are not public */
  allow: string[];
  /** ranges that no sandbox may reach */
  deny: string[];
  /** resolvers to ask, as "1.1.1.1" or "[2606::1]:53"; none for those of the host, as they are at any time */
  resolvers: string[];
  /** PEMs to believe besides the host's own where TLS is opened */
  roots: string[];
  /** what connections to public addresses go through */
  proxy?: EgressProxy | undefined;
  /** names of the headers of forwarded requests; without them nothing is forwarded */
  forwardHeaders?: ForwardHeaders | undefined;
}

/** An HTTP proxy that opens tunnels (CONNECT). */
export interface EgressProxy {
  /** a name or an address */
  host: string;
  port: number;
  /** what it wants to hear in Proxy-Authorization: a secret */
  authorization?: string | undefined;
  /** whether it is asked for names, where they are known, rather than for addresses */
  names: boolean;
  /** domains, with all below them, and ranges that are reached without it */
  direct: string[];
}

export const noEgressSettings: EgressSettings = { allow: [], deny: [], resolvers: [], roots: [] };
