/**
 * Network policies of machines on InstaVM's wire. A policy of the core names hosts, not ports, so an allowed host is
 * reachable by both http and https. Answers show the policy in force, which may differ from the requested one.
 */

import type { Hono } from "hono";
import type { Owner } from "../../core/model/sandbox.ts";
import type { NetworkPolicy } from "../../core/network/network-policy.ts";
import { isOver } from "../../core/sessions/states.ts";
import { json } from "../kit/http.ts";
import { Unprocessable } from "./errors.ts";
import {
  bodyOf,
  type Dialect,
  type Env,
  type InstavmContext,
  ownerOf,
  queryOf,
  type Vm,
  vmOf,
  vmOfSession,
} from "./request.ts";
import { areReachable } from "./schemas.ts";

export interface EgressPolicy {
  allow_package_managers?: boolean | undefined;
  allow_http?: boolean | undefined;
  allow_https?: boolean | undefined;
  allowed_domains?: string[] | undefined;
  allowed_cidrs?: string[] | undefined;
}

export function egressRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;
  const kinds = { session: vmOfSession, vm: vmOf };

  for (const [kind, find] of Object.entries(kinds)) {
    const path = `/v1/egress/${kind}/:id`;
    const vmIn = (c: InstavmContext) => find(dialect, ownerOf(c), c.req.param("id") ?? "");

    app.get(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      return json(egressOf(policyIn(await vmIn(c))));
    });

    app.post(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const wanted = await bodyOf(c, schemas.egressBody);
      return json(await put(ownerOf(c), await vmIn(c), wanted));
    });

    // Members that are left out stay unchanged.
    app.patch(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const changes = await bodyOf(c, schemas.egressChanges);
      const vm = await vmIn(c);
      const wanted = { ...egressOf(policyIn(vm)), ...changes };
      if (!areReachable(wanted)) {
        const msg = "Domains are reached by http or https: with both forbidden none of them can be";
        throw new Unprocessable([{ loc: ["body", "allowed_domains"], msg, type: "value_error" }]);
      }
      return json(await put(ownerOf(c), vm, wanted));
    });
  }

  /** applies the policy to the running machine at once, and to later machines of the sandbox */
  async function put(owner: Owner, { sandbox, session }: Vm, wanted: EgressPolicy): Promise<object> {
    const networkPolicy = policyOf(wanted);
    await core.sandboxes.update(owner, sandbox.name, { networkPolicy });
    if (!isOver(session.state)) await core.sessions.setNetworkPolicy(owner, session.id, networkPolicy);
    return egressOf(networkPolicy);
  }
}

/** the policy in force; for an ended machine, its sandbox's policy, which the next machine will have */
function policyIn({ sandbox, session }: Vm): NetworkPolicy {
  return isOver(session.state) ? sandbox.networkPolicy : session.networkPolicy;
}

/** hosts from which pip, npm, apt and similar tools get packages */
export const registries = [
  "pypi.org",
  "files.pythonhosted.org",
  "registry.npmjs.org",
  "registry.yarnpkg.com",
  "deb.debian.org",
  "security.debian.org",
  "archive.ubuntu.com",
  "security.ubuntu.com",
  "ports.ubuntu.com",
  "index.crates.io",
  "static.crates.io",
  "crates.io",
  "proxy.golang.org",
  "sum.golang.org",
  "rubygems.org",
  "index.rubygems.org",
  "repo.maven.apache.org",
  "conda.anaconda.org",
  "repo.anaconda.com",
];

/**
 * The lists name the allowed hosts. Without lists, http or https allows any host. If both are forbidden, only package
 * managers and subnets remain.
 */
export function policyOf(wanted: EgressPolicy): NetworkPolicy {
  const { allow_package_managers: packages = false, allowed_domains: names = [], allowed_cidrs: cidrs = [] } = wanted;
  const { allow_http: http = false, allow_https: https = names.length > 0 } = wanted;
  const hosts = [...new Set([...names, ...(packages ? registries : [])])];
  if (hosts.length === 0 && cidrs.length === 0) {
    if (http && https) return { mode: "allow-all" };
    return http || https ? custom(["*"], []) : { mode: "deny-all" };
  }
  return custom(hosts, cidrs);
}

/** the policy in force, as far as this wire can express it */
export function egressOf(policy: NetworkPolicy): Required<EgressPolicy> {
  if (policy.mode !== "custom") return summary(policy.mode === "allow-all", policy.mode === "allow-all", [], []);
  const names = policy.domains.map(({ domain }) => domain);
  const packages = registries.every((host) => names.includes(host)) || names.includes("*");
  const rest = names.filter((name) => name !== "*" && !(packages && registries.includes(name)));
  return summary(packages, names.includes("*") || rest.length > 0, rest, policy.allowedCidrs);
}

function summary(packages: boolean, web: boolean, names: string[], cidrs: string[]): Required<EgressPolicy> {
  return {
    allow_package_managers: packages,
    allow_http: web,
    allow_https: web,
    allowed_domains: names,
    allowed_cidrs: cidrs,
  };
}

function custom(hosts: string[], allowedCidrs: string[]): NetworkPolicy {
  const domains = hosts.map((domain) => ({ domain, rules: [] }));
  return { mode: "custom", domains, allowedCidrs, deniedCidrs: [] };
}
