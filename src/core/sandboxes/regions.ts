/** Regions of a sandbox. Every region is this host, but a request with contradictory regions is rejected. */

import { SandkeepError } from "../model/errors.ts";
import type { Sandbox } from "../model/sandbox.ts";

type Regions = Pick<Sandbox, "region" | "failoverRegions">;

/** throws if the sandbox would fail over to its own region after the changes */
export function requireElsewhere(now: Regions, changes: { [Key in keyof Regions]?: Regions[Key] | undefined } = now) {
  if (changes.region === undefined && changes.failoverRegions === undefined) return;
  const { region = now.region, failoverRegions = now.failoverRegions } = changes;
  if (!failoverRegions.includes(region)) return;
  const words = "`failoverRegions` should NOT contain the sandbox's own region";
  throw new SandkeepError("invalid", `Invalid request: ${words}.`);
}
