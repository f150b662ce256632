/** What the operator says about the way out of all sandboxes, as the daemon and the egress process share it. */

import type { EgressSettings } from "../../protocols/egress-control.ts";

export type { EgressProxy, EgressSettings } from "../../protocols/egress-control.ts";

export const noEgressSettings: EgressSettings = { allow: [], deny: [], resolvers: [], roots: [] };
