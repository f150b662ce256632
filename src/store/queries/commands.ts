/** Commands: which session started them, and how they ended. Their output is in the runtime's journal. */

import type { Command } from "../../core/model/sandbox.ts";
import type { Store } from "../../core/ports/store.ts";
import type { Database } from "../tables.ts";
import { all, first, mapping } from "./rows.ts";

type CommandStore = Pick<
  Store,
  "insertCommand" | "deleteCommand" | "getCommand" | "endCommand" | "listCommands" | "openCommands"
>;

const commands = mapping<Command>({
  id: "text",
  teamId: "text",
  sessionId: "text",
  name: "text",
  args: "json",
  cwd: "text",
  startedAt: "whole",
  exitCode: "whole",
  endedAt: "whole",
  endCause: "text",
});

export function commandStore(db: Database, now: () => number): CommandStore {
  const ofSession = (sessionId: string) =>
    db.selectFrom("commands").selectAll().where("session_id", "=", sessionId).orderBy("started_at").orderBy("id");

  const getCommand = (id: string) =>
    first(db.selectFrom("commands").selectAll().where("id", "=", id), commands.toValue);

  return {
    getCommand,

    async insertCommand(command) {
      await db.insertInto("commands").values(commands.toRow(command)).execute();
    },

    async deleteCommand(id) {
      await db.deleteFrom("commands").where("id", "=", id).execute();
    },

    async endCommand(id, end) {
      const row = await db
        .updateTable("commands")
        .set({ ...commands.toChanges(end), ended_at: end.endedAt ?? now() })
        .where("id", "=", id)
        .where("ended_at", "is", null)
        .returningAll()
        .executeTakeFirst();
      return row ? commands.toValue(row) : getCommand(id);
    },

    listCommands: (sessionId) => all(ofSession(sessionId), commands.toValue),

    openCommands: (sessionId) => all(ofSession(sessionId).where("ended_at", "is", null), commands.toValue),
  };
}
