/** What a sandbox may reach and what reaches it: its network policy and its ports. */

import { z } from "zod";
import { answers, answersNothing, operation, sandboxName } from "../frame/operation.ts";
import { idOf } from "../frame/router.ts";
import { newNetworkPolicy, readPolicy } from "../resources/network-policy.ts";
import { portResource, printPort } from "../resources/sandbox.ts";
import { printSession, sessionResource } from "../resources/session.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Network";
const params = { sandbox: sandboxName };
const portParams = { ...params, port: z.string().regex(/^[1-9]\d{0,4}$/) };
const policyBody = z.strictObject({ networkPolicy: newNetworkPolicy });

export function networkOperations({ core, domain, limits }: Dialect) {
  return [
    operation({
      id: "setNetworkPolicy",
      method: "PUT",
      path: "/sandboxes/{sandbox}/network-policy",
      tag,
      summary: "Changes what a running sandbox may reach, at once and in its later sessions",
      description: "Open connections that the new policy does not allow are cut. Domains that stay keep their rules.",
      about: "project",
      params,
      body: policyBody,
      answer: answers("Its session", sessionResource),
      async run({ owner, params: { sandbox }, body: { networkPolicy } }) {
        return printSession(await core.policies.change(owner, sandbox, readPolicy(networkPolicy)));
      },
    }),
    operation({
      id: "setSessionNetworkPolicy",
      method: "PUT",
      path: "/sessions/{session}/network-policy",
      tag,
      summary: "Changes what a session may reach, at once and for this session only",
      about: "team",
      params: { session: idOf("session") },
      body: policyBody,
      answer: answers("The session", sessionResource),
      async run({ caller, params: { session }, body: { networkPolicy } }) {
        return printSession(await core.sessions.setNetworkPolicy(caller, session, readPolicy(networkPolicy)));
      },
    }),
    operation({
      id: "listPorts",
      method: "GET",
      path: "/sandboxes/{sandbox}/ports",
      tag,
      summary: "Lists the ports of a sandbox that have an address",
      about: "project",
      params,
      answer: answers("The ports", z.object({ ports: z.array(portResource) })),
      async run({ owner, params: { sandbox: name } }) {
        const { sandbox } = await core.sandboxes.get(owner, name);
        return { ports: sandbox.routes.map((route) => printPort(route, domain())) };
      },
    }),
    operation({
      id: "openPort",
      method: "PUT",
      path: "/sandboxes/{sandbox}/ports/{port}",
      tag,
      summary: "Gives a port an address, or returns the one that it has",
      about: "project",
      params: portParams,
      answer: answers("The port", portResource),
      async run({ owner, params: { sandbox, port } }) {
        const route = await core.routes.expose(owner, sandbox, Number(port), { most: limits.ports });
        return printPort(route, domain());
      },
    }),
    operation({
      id: "closePort",
      method: "DELETE",
      path: "/sandboxes/{sandbox}/ports/{port}",
      tag,
      summary: "Takes the address of a port away",
      about: "project",
      params: portParams,
      answer: answersNothing("It has none"),
      async run({ owner, params: { sandbox, port } }) {
        await core.routes.close(owner, sandbox, Number(port));
        return undefined;
      },
    }),
  ];
}
