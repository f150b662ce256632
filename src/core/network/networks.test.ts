/** Which secrets the network of a machine gets. */

import { describe, expect, test } from "vitest";
import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import type { NetworkPolicy, RuleAction } from "./network-policy.ts";
import { networkOf } from "./networks.ts";

const authority = { keyMaterial: "aa", serial: "bb" };
const identity = { teamId: "t", projectId: "p", sandboxId: "s", sandboxName: "n", issuer: "i", key: "k", keyId: "d" };
const context = {
  seal: { open: (sealed: string) => `open ${sealed}` },
  networkSecrets: { authorityOf: () => authority, identityOf: () => identity },
} as unknown as Context;

function policy(...actions: RuleAction[]): NetworkPolicy {
  const rules = actions.map((action) => ({ action }));
  return { mode: "custom", domains: [{ domain: "a.test", rules }], allowedCidrs: [], deniedCidrs: [] };
}

const headers: RuleAction = { kind: "set-headers", headers: { authorization: "sealed" } };
const forward: RuleAction = { kind: "forward", url: "https://b.test/" };

describe("the network of a machine", () => {
  test.each([
    ["has no secrets without rules", policy(), {}],
    ["has an authority with rules that set headers", policy(headers), { authority }],
    [
      "has the key of the host's tokens only with a rule that forwards",
      policy(headers, forward),
      { authority, identity },
    ],
  ])("%s", (_, given, secrets) => {
    const { authority: ofMachine, identity: who } = networkOf(context, {} as Session, given) as typeof secrets & {
      authority?: object;
      identity?: object;
    };
    expect({ ...(ofMachine && { authority: ofMachine }), ...(who && { identity: who }) }).toEqual(secrets);
  });
});
