/** Which drive one is a copy of, and which one the first of them was. */

import type { Words } from "./migration.ts";

export function driveOrigins({ text }: Words): string[] {
  return [`alter table drives add column parent_id ${text}`, `alter table drives add column root_id ${text}`];
}
