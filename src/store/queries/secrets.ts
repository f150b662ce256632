/** Secrets of teams, whose values were sealed before they come here. */

import { SandkeepError } from "../../core/model/errors.ts";
import type { Secret } from "../../core/model/secret.ts";
import type { SecretRecords } from "../../core/ports/template-records.ts";
import { durable } from "../durable.ts";
import type { Database } from "../tables.ts";
import { behind, readPage } from "./page.ts";
import { first, mapping, type Row } from "./rows.ts";

const secrets = mapping<Secret>({
  id: "text",
  teamId: "text",
  name: "text",
  value: "text",
  version: "whole",
  metadata: "json",
  createdAt: "whole",
  updatedAt: "whole",
});

export function secretStore(db: Database): SecretRecords {
  return {
    insertSecret: durable(async (secret) => {
      const inserted = await db
        .insertInto("secrets")
        .values(secrets.toRow(secret))
        .onConflict((conflict) => conflict.columns(["team_id", "name"]).doNothing())
        .returning("id")
        .executeTakeFirst();
      if (inserted) return;
      throw new SandkeepError("exists", `Cannot create the secret "${secret.name}": the team has one of that name`);
    }),

    async findSecret(teamId, idOrName) {
      const rows = await db
        .selectFrom("secrets")
        .selectAll()
        .where("team_id", "=", teamId)
        .where((eb) => eb.or([eb("id", "=", idOrName), eb("name", "=", idOrName)]))
        .execute();
      const row = rows.find(({ id }) => id === idOrName) ?? rows[0];
      return row && secrets.toValue(row);
    },

    updateSecret: durable((id, changes) =>
      first(
        db
          .updateTable("secrets")
          .set((eb) => ({ ...secrets.toChanges(changes), version: eb("version", "+", 1) }))
          .where("id", "=", id)
          .returningAll(),
        secrets.toValue,
      ),
    ),

    deleteSecret: durable(async (id) => {
      const deleted = await db.deleteFrom("secrets").where("id", "=", id).returning("id").executeTakeFirst();
      return deleted !== undefined;
    }),

    async countSecrets(teamId) {
      const { count } = await db
        .selectFrom("secrets")
        .select((eb) => eb.fn.countAll<number | string>().as("count"))
        .where("team_id", "=", teamId)
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    listSecrets(query) {
      const { teamId, order } = query;
      return readPage<Row<Secret>, Secret>(
        {
          query,
          sort: { column: "created_at", type: "number" },
          list: { of: "secrets", teamId },
          read: (position, limit) =>
            db
              .selectFrom("secrets")
              .selectAll()
              .where("team_id", "=", teamId)
              .where((eb) => eb.and(position ? [behind(position, order, "created_at", "id")] : []))
              .orderBy("created_at", order)
              .orderBy("id", order)
              .limit(limit)
              .execute(),
        },
        secrets.toValue,
      );
    },
  };
}
