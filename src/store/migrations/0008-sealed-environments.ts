/**
 * Seals the environment variables of sandboxes and sessions, which earlier versions stored as plain text. It needs the
 * seal, which only the daemon has.
 */

import type { Kysely } from "kysely";
import type { MigrationContext } from "./migration.ts";

const batch = 1000;

interface Tables {
  sandboxes: { id: string; env: string };
  sessions: { id: string; env: string };
}

export async function up(db: Kysely<Tables>, { seal }: MigrationContext): Promise<void> {
  for (const table of ["sandboxes", "sessions"] as const) {
    for (let last = ""; ; ) {
      const rows = await db
        .selectFrom(table)
        .select(["id", "env"])
        .where("id", ">", last)
        .where("env", "<>", "{}")
        .orderBy("id")
        .limit(batch)
        .execute();
      if (rows.length > 0 && !seal) {
        throw new Error("the daemon has to seal its secrets first; start it once");
      }
      for (const { id, env } of rows) {
        const values = Object.entries(JSON.parse(env) as Record<string, string>);
        const sealed = Object.fromEntries(values.map(([name, value]) => [name, seal?.(value) ?? ""]));
        await db
          .updateTable(table)
          .set({ env: JSON.stringify(sealed) })
          .where("id", "=", id)
          .execute();
      }
      if (rows.length < batch) break;
      last = rows.at(-1)?.id ?? "";
    }
  }
}
