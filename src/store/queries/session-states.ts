/**
 * Conditions on the states of sessions, worded like the conditions of their indexes: a database uses a partial index
 * only for a query with the same condition.
 */

import { sql } from "kysely";
import type { SessionState } from "../../core/model/sandbox.ts";
import { openStates, overStates } from "../../core/sessions/states.ts";

const running: SessionState = "running";

export const isRunning = sql<boolean>`state = ${sql.lit(running)}`;
export const isOpen = stateIn(openStates);
export const isOver = stateIn(overStates);

function stateIn(states: readonly SessionState[]) {
  return sql<boolean>`state in (${sql.join(states.map((state) => sql.lit(state)))})`;
}
