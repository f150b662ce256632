/**
 * Network policies on E2B's API: a sandbox may reach everything except what `denyOut` names, and `allowOut` overrides
 * `denyOut`. In a policy of the core, denied ranges override allowed ones. So allowed ranges are cut out of the denied
 * ones.
 */

import { isIP } from "node:net";
import type { Hono } from "hono";
import { type Cidr, covers, parseCidr } from "../../../core/network/cidr.ts";
import type { DomainRule, NetworkPolicy } from "../../../core/network/network-policy.ts";
import { isAsleep } from "../../../core/sessions/states.ts";
import { Refusal } from "../../kit/refusal.ts";
import { bodyOf, type Dialect, type Env, nothing, queryOf, sandboxOf } from "../request.ts";
import type { Network } from "../schemas.ts";
import { withSecrets } from "../secrets.ts";
import { type Notes, notesOf } from "../wire.ts";

type Egress = Pick<Network, "allowOut" | "denyOut" | "rules">;

const everywhere = "0.0.0.0/0";

export function networkRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  // Members that are left out are cleared.
  app.put("/sandboxes/:id/network", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { allow_internet_access: internet, ...egress } = await bodyOf(c, dialect, schemas.networkBody);
    const rules = await withSecrets(dialect, c.get("owner"), egress.rules);
    const networkPolicy = policyOf({ ...egress, rules }, internet);
    const { sandbox, session } = await sandboxOf(c, dialect);
    if (isAsleep(session.state)) throw new Refusal(409, "Cannot change the network of the sandbox: it is paused");
    await core.sessions.setNetworkPolicy(c.get("owner"), session.id, networkPolicy);
    const { isPrivate, host: maskRequestHost } = sandbox.ingress ?? {};
    const ingress = { ...(isPrivate && { allowPublicTraffic: false }), ...(maskRequestHost && { maskRequestHost }) };
    const { template } = notesOf(sandbox);
    const notes = { e2b: { ...notesFor({ ...egress, ...ingress }, internet), ...(template && { template }) } };
    await core.sandboxes.update(c.get("owner"), sandbox.name, { networkPolicy, notes });
    return nothing();
  });
}

/** the network settings to show later, with only the names of headers, since the values are secrets */
export function notesFor(network: Network | undefined, internet: boolean | undefined): Notes {
  const { rules, egressProxy: _, httpsPorts: __, ...plain } = network ?? {};
  const shown = Object.entries(rules ?? {}).map(([domain, list]) => [
    domain,
    list.map(({ transform }) => ({
      ...(transform && { transform: { ...(transform.headers && { headers: hidden(transform.headers) }) } }),
    })),
  ]);
  const defined = Object.entries({ ...plain, ...(rules && { rules: Object.fromEntries(shown) }) });
  return {
    ...(internet !== undefined && { allowInternetAccess: internet }),
    ...(network && { network: Object.fromEntries(defined.filter(([, value]) => value !== undefined)) }),
  };
}

function hidden(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.keys(headers).map((name) => [name, "[hidden]"]));
}

export function policyOf({ allowOut = [], denyOut = [], rules }: Egress, internet = true): NetworkPolicy {
  const ranges = allowOut.filter(isRange).map(cidrOf);
  const domains = allowOut.filter((entry) => !isRange(entry));
  const isClosed = !internet || denyOut.map(cidrOf).some((denied) => covers(denied, cidrOf(everywhere)));
  if (domains.length > 0 && !isClosed) {
    throw new Refusal(400, `Cannot allow domains in \`allowOut\`: \`denyOut\` should have "${everywhere}" in it`);
  }
  const ruled: DomainRule[] = Object.entries(rules ?? {}).map(([domain, list]) => ({
    domain,
    rules: list.flatMap(({ transform: { headers = {} } = {} }) => {
      return Object.keys(headers).length > 0 ? [{ action: { kind: "set-headers" as const, headers } }] : [];
    }),
  }));
  if (isClosed) return closed(ranges, domains, ruled);
  const denied = denyOut.map(cidrOf).flatMap((each) => without(each, ranges));
  if (denied.length === 0 && ruled.length === 0) return { mode: "allow-all" };
  const open = [{ domain: "*", rules: [] }, ...ruled];
  return { mode: "custom", domains: open, allowedCidrs: [], deniedCidrs: denied.map(textOf) };
}

/** a policy that allows only what is listed; rules allow nothing, so each must be for an allowed domain */
function closed(ranges: Cidr[], domains: string[], ruled: DomainRule[]): NetworkPolicy {
  const astray = ruled.find(({ domain }) => !domains.some((allowed) => isBelow(domain, allowed)));
  if (astray) throw new Refusal(400, `Cannot apply rules to "${astray.domain}": \`allowOut\` does not allow it`);
  if (ranges.length === 0 && domains.length === 0) return { mode: "deny-all" };
  const plain = domains.filter((domain) => !ruled.some((rule) => rule.domain === domain));
  return {
    mode: "custom",
    domains: [...plain.map((domain) => ({ domain, rules: [] })), ...ruled],
    allowedCidrs: ranges.map(textOf),
    deniedCidrs: [],
  };
}

function isBelow(domain: string, allowed: string): boolean {
  return domain === allowed || allowed === "*" || (allowed.startsWith("*.") && domain.endsWith(allowed.slice(1)));
}

function isRange(entry: string): boolean {
  return isIP(entry) !== 0 || entry.includes("/");
}

function cidrOf(text: string): Cidr {
  const cidr = parseCidr(text);
  if (!cidr) throw new Refusal(400, `Cannot use "${text}": it is not an address or a subnet`);
  return cidr;
}

/** a range minus others: the whole range, parts of it, or nothing */
export function without(range: Cidr, others: readonly Cidr[]): Cidr[] {
  if (others.some((other) => covers(other, range))) return [];
  const inside = others.filter((other) => covers(range, other));
  if (inside.length === 0) return [range];
  return halves(range).flatMap((half) => without(half, inside));
}

function halves({ bytes, length }: Cidr): Cidr[] {
  return [0, 1].map((bit) => {
    const half = bytes.map((byte, at) => {
      const kept = Math.min(8, Math.max(0, length - at * 8));
      const prefix = byte & (0xff00 >> kept) & 0xff;
      return at === length >> 3 ? prefix | (bit << (7 - (length & 7))) : prefix;
    });
    return { text: "", bytes: half, length: length + 1 };
  });
}

function textOf({ bytes, length }: Cidr): string {
  const groups = Array.from({ length: bytes.length / 2 }, (_, at) =>
    (((bytes[at * 2] ?? 0) << 8) | (bytes[at * 2 + 1] ?? 0)).toString(16),
  );
  return `${bytes.length === 4 ? bytes.join(".") : groups.join(":")}/${length}`;
}
