/** The operator's egress settings for all sandboxes, shared by the daemon and the egress process. */

import type { EgressSettings } from "../../protocols/egress-control.ts";

export type { EgressProxy, EgressSettings } from "../../protocols/egress-control.ts";

export const noEgressSettings: EgressSettings = { allow: [], deny: [], resolvers: [], roots: [] };
