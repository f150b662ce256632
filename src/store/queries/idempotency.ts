/** Requests with an idempotency key, so that a repeat gets the first answer instead of a second effect. */

import { setImmediate as nextTurn } from "node:timers/promises";
import type { Store } from "../../core/ports/store.ts";
import { durable } from "../durable.ts";
import type { Engine } from "../engines/engines.ts";
import { statement } from "../engines/statements.ts";

type IdempotencyStore = Pick<Store, "beginIdempotent" | "endIdempotent" | "forgetIdempotent" | "abandonIdempotent">;

/** rows deleted before other work gets its turn */
const rowsAtOnce = 100;

export function idempotencyStore({ db, statements }: Pick<Engine, "db" | "statements">): IdempotencyStore {
  const beginning = statement(({ key, at }: { key: string; at: number }) =>
    db
      .insertInto("idempotent_requests")
      .values({ key, began_at: at, status: null, body: null })
      .onConflict((conflict) => conflict.column("key").doNothing())
      .returning("key"),
  );
  const ending = statement(({ key, ...answer }: { key: string; status: number; body: string }) =>
    db.updateTable("idempotent_requests").set(answer).where("key", "=", key),
  );
  return {
    async beginIdempotent(key, at) {
      for (;;) {
        if (await statements.first(beginning({ key, at }))) return "new";
        const first = await db
          .selectFrom("idempotent_requests")
          .select(["status", "body"])
          .where("key", "=", key)
          .executeTakeFirst();
        // Deleted between the two statements: the key is free again.
        if (!first) continue;
        if (first.status === null) return "running";
        return { status: first.status, body: first.body ?? "" };
      }
    },

    endIdempotent: durable(async (key, answer) => {
      if (answer) await statements.all(ending({ key, ...answer }));
      else await db.deleteFrom("idempotent_requests").where("key", "=", key).execute();
    }),

    async forgetIdempotent(before) {
      for (;;) {
        const old = db.selectFrom("idempotent_requests").select("key").where("began_at", "<", before);
        const gone = await db
          .deleteFrom("idempotent_requests")
          .where("key", "in", old.limit(rowsAtOnce))
          .returning("key")
          .execute();
        if (gone.length < rowsAtOnce) return;
        await nextTurn();
      }
    },

    async abandonIdempotent() {
      await db.deleteFrom("idempotent_requests").where("status", "is", null).execute();
    },
  };
}
