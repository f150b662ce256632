/** The schema's step for forked drives: which drive one is a copy of, and which one the first of them was. */

import type { Engine } from "../engines/engines.ts";

export function driveOrigins({ text }: Pick<Engine, "text">): string[] {
  return [`alter table drives add column parent_id ${text}`, `alter table drives add column root_id ${text}`];
}
