/** The audit: entries are added, listed by time, and deleted from the oldest on. */

import type { AuditEntry } from "../../core/model/audit.ts";
import type { AuditRecords } from "../../core/ports/audit-records.ts";
import type { Database } from "../tables.ts";
import { behind, pageByTime } from "./page.ts";
import { mapping } from "./rows.ts";

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

export function auditStore(db: Database): AuditRecords {
  return {
    async addAudit(added) {
      if (added.length === 0) return;
      // A statement may have been executed although its answer was lost.
      await db
        .insertInto("audit")
        .values(added.map(entries.toRow))
        .onConflict((conflict) => conflict.column("id").doNothing())
        .execute();
    },

    listAudit: (query) =>
      pageByTime(db, { of: "audit", time: "at", owner: { teamId: query.teamId } }, query, entries.toValue),

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
