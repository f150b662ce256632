/** Tools for the network: give a port a URL, and set the network policy. */

import { z } from "zod";
import { handle, ownerOf } from "../handle.ts";
import { describedPolicy, policy, policyOf, printPolicy } from "../policy.ts";
import { printRoute, routeFields } from "../print.ts";
import { port } from "../settings.ts";
import { additive, idempotent, type Tool, tool } from "../tool.ts";

export const networkTools: Tool[] = [
  tool({
    name: "expose_port",
    title: "Expose a port",
    description:
      "Give a port of a sandbox a URL. Use it to show a web server that runs inside: anyone who knows the URL and can connect " +
      "to the host of its name reaches it without a key, while the sandbox runs and the server listens on that port. A name " +
      "below localhost works on the sandboxes' host only. Returns the URL; a port that has one keeps it.",
    input: z.strictObject({ ...handle, port: port.describe("Port that the server listens on.") }),
    output: z.strictObject(routeFields),
    hints: { ...idempotent, openWorldHint: true },
    async run({ sandbox, port: wanted }, call) {
      const owner = await ownerOf(call);
      const route = await call.core.routes.expose(owner, sandbox, wanted, { most: call.limits.ports });
      return { sandbox, ...printRoute(route, call) };
    },
  }),
  tool({
    name: "set_network_policy",
    title: "Set the network policy",
    description:
      "Narrow what a running sandbox may reach, at once and for open connections too; its later runs and its forks keep " +
      "it. Use it to close the network before you run code that you do not trust. A wider policy is refused, unless " +
      "the person who set up this connection allowed it. Returns the policy in force.",
    input: z.strictObject({ ...handle, network_policy: describedPolicy }),
    output: z.strictObject({ sandbox: z.string(), network_policy: policy }),
    hints: { ...additive, idempotentHint: true, destructiveHint: true },
    async run({ network_policy: wanted, ...args }, call) {
      const changed = await call.core.policies.change(await ownerOf(call), args.sandbox, policyOf(wanted));
      return { sandbox: args.sandbox, network_policy: printPolicy(changed.networkPolicy) };
    },
  }),
];
