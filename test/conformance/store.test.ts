/** The store on each of its engines against the suites that every engine passes. */

import { join } from "node:path";
import { afterAll, beforeAll, describe } from "vitest";
import type { Store } from "../../src/core/ports/store.ts";
import { openStore, type StoreLocation } from "../../src/store/sql-store.ts";
import { tempDir, type Undo } from "../harness/harness.ts";
import { startPostgres } from "../harness/postgres.ts";
import { commandsSuite } from "./store/commands.ts";
import { containmentSuite } from "./store/containment.ts";
import { countsSuite } from "./store/counts.ts";
import { drivesSuite } from "./store/drives.ts";
import { durabilitySuite } from "./store/durability.ts";
import type { StoreHost } from "./store/host.ts";
import { idempotencySuite } from "./store/idempotency.ts";
import { listsSuite } from "./store/lists.ts";
import { migrationsSuite } from "./store/migrations.ts";
import { pruningSuite } from "./store/pruning.ts";
import { sandboxesSuite } from "./store/sandboxes.ts";
import { sessionsSuite } from "./store/sessions.ts";
import { snapshotsSuite } from "./store/snapshots.ts";
import { spansSuite } from "./store/spans.ts";
import { tagsSuite } from "./store/tags.ts";
import { teamsSuite } from "./store/teams.ts";

/** each returns the locations of empty databases */
const engines: Record<string, (undo: Undo) => Promise<() => Promise<StoreLocation>>> = {
  async SQLite(undo) {
    const directory = await tempDir(undo);
    let files = 0;
    return async () => ({ path: join(directory, `${files++}.db`) });
  },
  async PostgreSQL(undo) {
    const server = await startPostgres(undo);
    return async () => ({ url: await server.freshDatabase() });
  },
};

for (const [name, start] of Object.entries(engines)) {
  describe(name, () => {
    const undo = new AsyncDisposableStack();
    let host: (StoreHost & { store: Store; place: () => Promise<StoreLocation> }) | undefined;

    beforeAll(async () => {
      const place = await start(undo);
      const store = await openStore(await place());
      undo.defer(() => store.close());
      host = {
        store,
        place,
        async fresh() {
          const location = await place();
          return () => openStore(location);
        },
      };
    });
    afterAll(() => undo.disposeAsync());

    const current = () => {
      if (!host) throw new Error(`${name} has not been started`);
      return host;
    };
    for (const suite of [
      teamsSuite,
      sandboxesSuite,
      sessionsSuite,
      commandsSuite,
      snapshotsSuite,
      drivesSuite,
      idempotencySuite,
      listsSuite,
      spansSuite,
      countsSuite,
      tagsSuite,
      containmentSuite,
      pruningSuite,
      durabilitySuite,
    ])
      suite(current);
    migrationsSuite(() => current().place());
  });
}
