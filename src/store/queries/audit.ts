/** The audit: entries are added, listed by time, and deleted from the oldest on. */

import { sql } from "kysely";
import type { AuditEntry } from "../../core/model/audit.ts";
import type { AuditFilter, AuditRecords } from "../../core/ports/audit-records.ts";
import type { Engine } from "../engines/engines.ts";
import { statement, step } from "../engines/statements.ts";
import { behind, pageByTime, type TimeFilter } from "./lists/page.ts";
import { mapping, type Row } from "./rows.ts";

const entries = mapping<AuditEntry>({
  id: "text",
  at: "whole",
  teamId: "text",
  projectId: "text",
  keyId: "text",
  wire: "text",
  address: "prose",
  action: "text",
  target: "prose",
  sessionId: "prose",
  outcome: "text",
});

/** entries that one statement inserts; the rest of a batch is inserted one by one */
const rowsAtOnce = 20;

export function auditStore({ db, statements }: Pick<Engine, "db" | "statements">): AuditRecords {
  const one = insertion(db, 1);
  const several = insertion(db, rowsAtOnce);
  return {
    addAudit: (added) =>
      statements.transaction(function* () {
        const rows = added.map(entries.toRow);
        while (rows.length >= rowsAtOnce) yield* step(several(numbered(rows.splice(0, rowsAtOnce))));
        for (const row of rows) yield* step(one(numbered([row])));
      }),

    listAudit({ teamId, actions, keyId, target, outcome, from, to, ...page }) {
      const filter = filterOf({ actions, keyId, target, outcome, from, to });
      return pageByTime(db, { of: "audit", time: "at", owner: { teamId }, filter }, page, entries.toValue);
    },

    async pruneAudit({ teamId, from, newest, limit }) {
      const ofTeam = db.selectFrom("audit").where("team_id", "=", teamId);
      const surplus =
        newest === undefined
          ? undefined
          : await ofTeam
              .select(["at", "id"])
              .orderBy("at", "desc")
              .orderBy("id", "desc")
              .offset(newest)
              .limit(1)
              .executeTakeFirst();
      const last = surplus && { value: surplus.at, id: surplus.id };
      if (last === undefined && from === undefined) return 0;
      const old = await ofTeam
        .select("id")
        .where((eb) =>
          eb.or([
            ...(from === undefined ? [] : [eb("at", "<", from)]),
            ...(last === undefined ? [] : [behind(last, "desc", "at", "id"), eb("id", "=", last.id)]),
          ]),
        )
        .orderBy("at")
        .orderBy("id")
        .limit(limit)
        .execute();
      if (old.length === 0) return 0;
      const ids = old.map(({ id }) => id);
      await db.deleteFrom("audit").where("id", "in", ids).execute();
      return ids.length;
    },
  };
}

/** each of these conditions has an index; those of times are conditions on the order itself */
function filterOf(wanted: Wanted): TimeFilter {
  const { actions, keyId, target, outcome, from, to } = wanted;
  const conditions = [
    ...(keyId === undefined ? [] : [sql<boolean>`key_id = ${keyId}`]),
    ...(target === undefined ? [] : [sql<boolean>`target = ${target}`]),
    // A database uses the index of failures only if it reads their condition itself.
    ...(outcome === undefined || outcome === "done" ? [] : [sql<boolean>`outcome <> 'done'`]),
    ...(outcome === undefined || outcome === "failed" ? [] : [sql<boolean>`outcome = ${outcome}`]),
    ...(from === undefined ? [] : [sql<boolean>`at >= ${from}`]),
    ...(to === undefined ? [] : [sql<boolean>`at <= ${to}`]),
  ];
  const oneOf = actions?.map((action) => sql<boolean>`action = ${action}`);
  return { conditions, ...(oneOf && { oneOf }), of: { ...wanted } };
}

type Wanted = { [K in keyof Required<AuditFilter>]: AuditFilter[K] | undefined };

/** a statement that inserts this many rows; it may have been executed before, if its answer was lost */
function insertion(db: Engine["db"], rows: number) {
  return statement((values: Record<string, unknown>) =>
    db
      .insertInto("audit")
      .values(Array.from({ length: rows }, (_, row) => rowOf(values, row)))
      .onConflict((conflict) => conflict.column("id").doNothing()),
  );
}

/** the columns of all rows in one object, as a statement takes its values */
function numbered(rows: Row<AuditEntry>[]): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [index, row] of rows.entries())
    for (const column of entries.columns) values[`${column} ${index}`] = row[column];
  return values;
}

function rowOf(values: Record<string, unknown>, row: number): Row<AuditEntry> {
  const columns = entries.columns.map((column) => [column, values[`${column} ${row}`]]);
  return Object.fromEntries(columns) as Row<AuditEntry>; // made by numbered()
}
