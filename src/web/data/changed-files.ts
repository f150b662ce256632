/** The files of a running sandbox that differ from a snapshot, for marks in its tree. */

import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";
import { type Answer, useAnswer } from "./answer.ts";

type Change = Output<"compareSnapshot">["changes"][number]["change"];

export interface ChangedFiles {
  /** by path */
  changes: ReadonlyMap<string, Change>;
  /** folders with a change somewhere below */
  folders: ReadonlySet<string>;
  /** whether there may be more changes than were read */
  isCut: boolean;
}

const mostPages = 20;
const perPage = 1000;

/** an empty snapshot compares nothing */
export function useChangedFiles(sandbox: string, snapshot: string, turn: number): Answer<ChangedFiles | undefined> {
  const read = async (signal: AbortSignal) => {
    if (snapshot === "") return undefined;
    const found: [string, Change][] = [];
    let isCut = false;
    let cursor: string | undefined;
    for (let page = 0; page < mostPages; page++) {
      const query = { sandbox, limit: perPage, ...(cursor !== undefined && { cursor }) };
      const { changes, next, truncated } = await client.call("compareSnapshot", {
        params: { snapshot },
        query,
        signal,
      });
      for (const { path, change } of changes) found.push([path, change]);
      isCut ||= truncated;
      if (next === null) return marksOf(found, isCut);
      cursor = next;
    }
    return marksOf(found, true);
  };
  return useAnswer(`${sandbox} ${snapshot}`, read, undefined, turn);
}

export function marksOf(found: readonly (readonly [path: string, change: Change])[], isCut: boolean): ChangedFiles {
  const folders = new Set<string>();
  for (const [path] of found) {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const folder = path.slice(0, end);
      // Those above it are there already.
      if (folders.has(folder)) break;
      folders.add(folder);
    }
  }
  return { changes: new Map(found), folders, isCut };
}

/** names of files that are gone from a folder */
export function goneFrom(folder: string, { changes }: ChangedFiles): string[] {
  const start = folder.endsWith("/") ? folder : `${folder}/`;
  return [...changes].flatMap(([path, change]) => {
    const name = path.slice(start.length);
    return change === "removed" && path.startsWith(start) && !name.includes("/") ? [name] : [];
  });
}
