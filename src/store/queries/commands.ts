/** Commands: which session started them, and how they ended. Their output is in the runtime's journal. */

import type { Command } from "../../core/model/sandbox.ts";
import type { Store } from "../../core/ports/store.ts";
import type { Engine } from "../engines/engines.ts";
import { statement } from "../engines/statements.ts";
import { pageByTime } from "./lists/page.ts";
import { all, mapping, type Row } from "./rows.ts";

type CommandStore = Pick<
  Store,
  "insertCommand" | "deleteCommand" | "getCommand" | "endCommand" | "listCommands" | "pageCommands" | "openCommands"
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

export function commandStore({ db, statements }: Pick<Engine, "db" | "statements">, now: () => number): CommandStore {
  const ofSession = (sessionId: string) =>
    db.selectFrom("commands").selectAll().where("session_id", "=", sessionId).orderBy("started_at").orderBy("id");
  const open = statement(({ id }: Id) => ofSession(id).where("ended_at", "is", null));
  const byId = statement(({ id }: Id) => db.selectFrom("commands").selectAll().where("id", "=", id));
  const insertion = statement((row: Row<Command>) => db.insertInto("commands").values(row));
  const ending = statement(({ id, ...end }: Id & Partial<Row<Command>>) =>
    db.updateTable("commands").set(end).where("id", "=", id).where("ended_at", "is", null).returningAll(),
  );

  const getCommand = async (id: string) => {
    const row = await statements.first(byId({ id }));
    return row && commands.toValue(row);
  };

  return {
    getCommand,

    async insertCommand(command) {
      await statements.all(insertion(commands.toRow(command)));
    },

    async deleteCommand(id) {
      await db.deleteFrom("commands").where("id", "=", id).execute();
    },

    async endCommand(id, end) {
      const row = await statements.first(ending({ ...commands.toChanges(end), ended_at: end.endedAt ?? now(), id }));
      return row ? commands.toValue(row) : getCommand(id);
    },

    listCommands: (sessionId) => all(ofSession(sessionId), commands.toValue),

    pageCommands: (sessionId, query) =>
      pageByTime(db, { of: "commands", time: "started_at", owner: { sessionId } }, query, commands.toValue),

    openCommands: async (sessionId) => (await statements.all(open({ id: sessionId }))).map(commands.toValue),
  };
}

interface Id {
  id: string;
}
