/** Which data directory this database belongs to, in one row. */

import type { Words } from "./migration.ts";

export function identityTable({ text }: Words): string[] {
  return [`create table identity (slot integer primary key check (slot = 1), id ${text} not null)`];
}
