/** Which data directory this database belongs to, in one row. */

import type { Store } from "../core/ports/store.ts";
import { durable } from "./durable.ts";
import type { Database } from "./tables.ts";

export function identityStore(db: Database): Pick<Store, "identity" | "setIdentity"> {
  return {
    async identity() {
      return (await db.selectFrom("identity").select("id").executeTakeFirst())?.id;
    },
    setIdentity: durable(async (id) => {
      await db
        .insertInto("identity")
        .values({ slot: 1, id })
        .onConflict((conflict) => conflict.column("slot").doUpdateSet({ id }))
        .execute();
    }),
  };
}
