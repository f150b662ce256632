/** Commands: which session started them, and how they ended. Their output is in the runtime's journal. */

import { sql } from "kysely";
import type { Command } from "../../core/model/sandbox.ts";
import type { CommandTally, Store } from "../../core/ports/store.ts";
import type { Engine } from "../engines/engines.ts";
import { statement } from "../engines/statements.ts";
import { pageByTime } from "./lists/page.ts";
import { all, mapping, type Row } from "./rows.ts";

type CommandStore = Pick<
  Store,
  | "insertCommand"
  | "deleteCommand"
  | "getCommand"
  | "endCommand"
  | "listCommands"
  | "pageCommands"
  | "openCommands"
  | "tallyCommands"
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

    pageCommands(sessionId, { from, to, ...query }) {
      const where = [
        ...(from === undefined ? [] : [sql<boolean>`(ended_at is null or ended_at >= ${from})`]),
        ...(to === undefined ? [] : [sql<boolean>`started_at <= ${to}`]),
      ];
      const filter = { conditions: where, of: { from, to } };
      const list = { of: "commands", time: "started_at", owner: { sessionId }, filter } as const;
      return pageByTime(db, list, query, commands.toValue);
    },

    openCommands: async (sessionId) => (await statements.all(open({ id: sessionId }))).map(commands.toValue),

    async tallyCommands(sessionId, { from, step, count }) {
      const to = from + step * count;
      const tally = (time: "started_at" | "ended_at") => {
        const part = sql<number>`cast((${sql.ref(time)} - ${from}) / ${step} as integer)`;
        return sql<{ part: number; number: number; failed: number }>`
          select ${part} as part, count(*) as number, sum(case when exit_code <> 0 then 1 else 0 end) as failed
          from commands where session_id = ${sessionId} and ${sql.ref(time)} >= ${from} and ${sql.ref(time)} < ${to}
          group by 1`.execute(db);
      };
      const [starts, ends, before] = await Promise.all([
        tally("started_at"),
        tally("ended_at"),
        sql<{ number: number }>`
          select count(*) as number from commands
          where session_id = ${sessionId} and started_at < ${from} and (ended_at is null or ended_at >= ${from})`.execute(
          db,
        ),
      ]);
      const parts = new Map<number, CommandTally["parts"][number]>();
      const at = (part: number) => {
        const entry = parts.get(part) ?? { part, started: 0, ended: 0, failed: 0 };
        parts.set(part, entry);
        return entry;
      };
      // PostgreSQL's client returns counts as texts.
      for (const { part, number } of starts.rows) at(Number(part)).started = Number(number);
      for (const { part, number, failed } of ends.rows)
        Object.assign(at(Number(part)), { ended: Number(number), failed: Number(failed) });
      const running = Number(before.rows[0]?.number ?? 0);
      return { running, parts: [...parts.values()].toSorted((one, other) => one.part - other.part) };
    },
  };
}

interface Id {
  id: string;
}
