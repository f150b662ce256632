/**
 * One step of the schema. A step that was released is never changed, and uses nothing that may change: it is written out, with
 * the tables as they were at its time.
 */

import type { Kysely } from "kysely";

/** what the engines call differently */
export interface Words {
  /** text that is compared byte by byte */
  text: string;
  /** what ends the definition of a table that is all key */
  allKey: string;
}

/** what makes a text unreadable for others; only the daemon has it */
export type Sealing = ((text: string) => string) | undefined;

export interface Migration {
  name: string;
  statements(words: Words): string[];
  /** fills what the statements made with what is there already */
  // biome-ignore lint/suspicious/noExplicitAny: each step knows the tables as they were at its time
  fill?(db: Kysely<any>, seal: Sealing): Promise<void>;
}
