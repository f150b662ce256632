/** Tools for the ways in and out: an address for a port, and what may be reached from inside. */

import { z } from "zod";
import { find, handle, ownerOf } from "../handle.ts";
import { policy, policyOf, printPolicy } from "../policy.ts";
import { printRoute, routeFields } from "../print.ts";
import { port } from "../settings.ts";
import { adds, settles, type Tool, tool } from "../tool.ts";

export const networkTools: Tool[] = [
  tool({
    name: "expose_port",
    title: "Expose a port",
    description:
      "Gives a port of the sandbox an address under which anybody who knows it reaches a web server inside. A port " +
      "that has an address keeps it. The server must listen on that port.",
    input: z.strictObject({ ...handle, port: port.describe("The port that a server inside listens on.") }),
    output: z.strictObject(routeFields),
    hints: { ...settles, openWorldHint: true },
    async run({ sandbox, port: wanted, ...args }, call) {
      const owner = await ownerOf(call, args);
      const route = await call.core.routes.expose(owner, sandbox, wanted, { most: call.limits.ports });
      return { sandbox, ...printRoute(route, call) };
    },
  }),
  tool({
    name: "set_network_policy",
    title: "Set the network policy",
    description:
      "Changes at once what a running sandbox may reach: everything, nothing, or named domains and address ranges. " +
      "Counts for its later runs and its forks, too.",
    input: z.strictObject({ ...handle, network_policy: policy }),
    output: z.strictObject({ sandbox: z.string(), network_policy: policy }),
    hints: { ...adds, idempotentHint: true, destructiveHint: true },
    async run({ network_policy: wanted, ...args }, call) {
      const { owner, sandbox, session } = await find(call, args);
      const networkPolicy = policyOf(wanted);
      const changed = await call.core.sessions.setNetworkPolicy(call.caller, session.id, networkPolicy);
      // An agent that was locked in would be free after the next stop, and in every fork.
      await call.core.sandboxes.update(owner, sandbox.name, { networkPolicy });
      return { sandbox: sandbox.name, network_policy: printPolicy(changed.networkPolicy) };
    },
  }),
];
