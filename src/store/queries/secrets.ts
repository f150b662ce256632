/** Secrets of teams, whose values were sealed before they come here. */

import { SandkeepError } from "../../core/model/errors.ts";
import type { Secret } from "../../core/model/secret.ts";
import type { SecretRecords } from "../../core/ports/template-records.ts";
import { durable } from "../durable.ts";
import type { Database } from "../tables.ts";
import { first, mapping } from "./rows.ts";
import { countOfTeam, pageOfTeam } from "./team-rows.ts";

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

    countSecrets: (teamId) => countOfTeam(db, "secrets", teamId),

    listSecrets: (query) => pageOfTeam(db, "secrets", query, secrets.toValue),
  };
}
