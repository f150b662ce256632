/**
 * Times that no program could read. A snapshot could be given a lifetime that ends after the last number that JavaScript
 * has, and then every list with this snapshot failed. A key could end after the last date. They now end with that date.
 */

import { execute, type Migration } from "./migration.ts";

/** in ms since 1970 */
const lastMoment = "8640000000000000";

export const up: Migration = (db) =>
  execute(
    db,
    ["snapshots", "api_keys"].map(
      (table) => `UPDATE ${table} SET expires_at = ${lastMoment} WHERE expires_at > ${lastMoment}`,
    ),
  );
