/** How often a daemon has claimed this database, so that each knows whether another came after. */

export function claimsTable(): string[] {
  return ["create table claims (slot integer primary key check (slot = 1), epoch bigint not null)"];
}
