/**
 * The thread that checkpoints.ts starts: has its own connection to the database, and answers each order when the log's
 * content is in the database and on the disk. Other connections read and write meanwhile. Writers wait only while the log
 * restarts.
 */

import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

export type Order = "checkpoint" | "close";

/** Whether it succeeded; a later checkpoint does what is left. */
export interface Outcome {
  isDone: boolean;
}

/** pages of the log from which on it is restarted; under constant writes it never restarts by itself */
const longLog = 4000;
/** most passes before the restart that copy new pages, and how many pages may be left */
const mostPasses = 5;
const shortRest = 100;

const database = new DatabaseSync(workerData as string);
database.exec("pragma synchronous = normal");
database.exec("pragma wal_autocheckpoint = 0");
// how long it waits for an open transaction, in ms
database.exec("pragma busy_timeout = 100");

parentPort?.on("message", (order: Order) => {
  if (order === "checkpoint") parentPort?.postMessage({ isDone: isCheckpointed() } satisfies Outcome);
  else {
    database.close();
    parentPort?.close();
  }
});

/** copies the log's content without blocking other connections; returns its number of pages */
function copied(): number {
  const { log } = database.prepare("pragma wal_checkpoint(passive)").get() as { log: number };
  return log;
}

function isCheckpointed(): boolean {
  try {
    let log = copied();
    if (log < longLog) return true;
    // The fewer pages are left, the shorter writers wait.
    for (let pass = 0; pass < mostPasses; pass++) {
      const before = log;
      log = copied();
      if (log - before < shortRest) break;
    }
    database.exec("pragma wal_checkpoint(restart)");
    return true;
  } catch {
    return false;
  }
}
