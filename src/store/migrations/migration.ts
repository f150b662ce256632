/**
 * What a migration may use. A released migration never changes and imports only this file and Kysely, so nothing here
 * changes either. Each migration defines the tables as they were at its time.
 */

import { type Kysely, sql } from "kysely";

export interface MigrationContext {
  /** the type of text that is compared byte by byte */
  text: string;
  /** ends the definition of a table whose columns are all part of the key */
  allKey: string;
  /** encrypts a text; only the daemon has it */
  seal?: ((text: string) => string) | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: each migration knows the tables as they were at its time
export type Migration = (db: Kysely<any>, context: MigrationContext) => Promise<void>;

// biome-ignore lint/suspicious/noExplicitAny: statements are text
export async function execute(db: Kysely<any>, statements: string[]): Promise<void> {
  for (const statement of statements) await sql.raw(statement).execute(db);
}
