/** The store on each of its engines against the suites that every engine passes. */

import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe } from "vitest";
import { openStore, type StoreLocation } from "../../src/store/sql-store.ts";
import { tempDir, type Undo } from "../harness/harness.ts";
import { startPostgres } from "../harness/postgres.ts";
import { auditSuite } from "./store/audit.ts";
import { commandsSuite } from "./store/commands.ts";
import { containmentSuite } from "./store/containment.ts";
import { countsSuite } from "./store/counts.ts";
import { drivesSuite } from "./store/drives.ts";
import { durabilitySuite } from "./store/durability.ts";
import { type StoreHost, shortRun } from "./store/host.ts";
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
import { templatesSuite } from "./store/templates.ts";
import { webhooksSuite } from "./store/webhooks.ts";

interface Databases {
  empty(): Promise<StoreLocation>;
  /** a copy of the database that `fill` has made, which no program uses */
  copy(): Promise<StoreLocation>;
}

/** `fill` makes the tables of an empty database */
const engines: Record<string, (undo: Undo, fill: (empty: StoreLocation) => Promise<void>) => Promise<Databases>> = {
  async SQLite(undo, fill) {
    const directory = await tempDir(undo);
    let files = 0;
    const next = () => join(directory, `${files++}.db`);
    const original = next();
    await fill({ path: original });
    return {
      empty: async () => ({ path: next() }),
      async copy() {
        const path = next();
        await copyFile(original, path);
        return { path };
      },
    };
  },
  async PostgreSQL(undo, fill) {
    const server = await startPostgres(undo);
    const original = await server.freshDatabase();
    await fill({ url: original });
    return {
      empty: async () => ({ url: await server.freshDatabase() }),
      copy: async () => ({ url: await server.copyOf(original) }),
    };
  },
};

for (const [name, start] of Object.entries(engines)) {
  describe(name, () => {
    const undo = new AsyncDisposableStack();
    let host: StoreHost | undefined;
    let databases: Databases | undefined;

    beforeAll(async () => {
      const started = await start(undo, async (empty) => (await openStore(empty)).close());
      databases = started;
      // As a daemon opens it, which keeps rows in memory.
      const store = await openStore(await started.empty(), { exclusive: () => undefined });
      undo.defer(() => store.close());
      host = {
        store,
        async fresh() {
          const location = await started.copy();
          return () => openStore(location, { runLength: shortRun });
        },
        async empty() {
          const location = await started.empty();
          return () => openStore(location);
        },
      };
    });
    afterAll(() => undo.disposeAsync());

    const current = () => {
      if (!host) throw new Error(`${name} has not been started`);
      return host;
    };
    const place = () => databases?.empty() ?? Promise.reject(new Error(`${name} has not been started`));
    for (const suite of [
      teamsSuite,
      sandboxesSuite,
      sessionsSuite,
      commandsSuite,
      snapshotsSuite,
      drivesSuite,
      templatesSuite,
      webhooksSuite,
      auditSuite,
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
    migrationsSuite(place);
  });
}
