/**
 * The thread that checkpoints.ts starts: has its own connection to the database, and answers each order when the log's
 * content is in the database and on the disk. Others read and write meanwhile; only while it lets the log begin anew
 * must those who write wait.
 */

import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

export type Order = "checkpoint" | "close";

/** Whether everything went well; what did not is done by a later checkpoint. */
export interface Outcome {
  isDone: boolean;
}

/** from how many pages on the log begins anew: it never does by itself while there is always somebody who writes */
const longLog = 4000;
/** how often what came meanwhile is copied before that, and how many pages need not be */
const mostPasses = 5;
const shortRest = 100;

const database = new DatabaseSync(workerData as string);
database.exec("pragma synchronous = normal");
database.exec("pragma wal_autocheckpoint = 0");
// in ms: how long it waits for a transaction that is open
database.exec("pragma busy_timeout = 100");

parentPort?.on("message", (order: Order) => {
  if (order === "checkpoint") parentPort?.postMessage({ isDone: isCheckpointed() } satisfies Outcome);
  else {
    database.close();
    parentPort?.close();
  }
});

/** copies what the log holds while others go on; returns how many pages it had */
function copied(): number {
  const { log } = database.prepare("pragma wal_checkpoint(passive)").get() as { log: number };
  return log;
}

function isCheckpointed(): boolean {
  try {
    let log = copied();
    if (log < longLog) return true;
    // The less is left, the shorter those who write must wait.
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
