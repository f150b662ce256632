/**
 * Records of kept-record.ts that are read often. One is read again only when its file was replaced, also by another
 * program. Looking at the file is one system call, where readKept() hands four to other threads.
 */

import { statSync } from "node:fs";
import type { z } from "zod";
import { readKept } from "./kept-record.ts";

export class RememberedRecords {
  /** by path: what was read while the file had this mark */
  readonly #known = new Map<string, { mark: string; record: unknown }>();

  /** undefined when no readable record exists; a path always has the same schema */
  async read<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
    const facts = statSync(path, { bigint: true, throwIfNoEntry: false });
    if (!facts) {
      this.#known.delete(path);
      return undefined;
    }
    const mark = `${facts.ino} ${facts.ctimeNs}`;
    const known = this.#known.get(path);
    if (known?.mark === mark) return known.record as T; // was read with this path's schema
    const record = await readKept(path, schema);
    this.#known.set(path, { mark, record });
    return record;
  }
}
