/** The cost of session lists as the APIs request them: newest first, by name, by tags, by moments, with a total. */

import type { Owner } from "../../src/core/model/sandbox.ts";
import type { SessionQuery, Store } from "../../src/core/ports/store.ts";
import { timeline } from "../../src/core/sessions/timeline.ts";
import { noon } from "../../test/conformance/store/host.ts";
import type { Subject } from "../measure.ts";

export interface Place {
  store: Store;
  owner: Owner;
}

/** a subject with its longest allowed p99, in ms */
export interface Goal {
  subject: Subject;
  goal: number;
}

/** `rows` is the number of sessions, as rows.ts makes them */
export function sessionSubjects({ store, owner: { projectId } }: Place, rows: number): Goal[] {
  // A place anywhere in the list, another one in each round.
  const somewhere = (round: number) => noon + ((round * 611_953) % rows);
  const source = {
    list: (query: Omit<SessionQuery, "projectId">) => store.listSessions({ ...query, projectId }),
    count: (span: Pick<SessionQuery, "after" | "before">) => store.countSessions({ ...span, projectId }),
  };
  const list = (name: string, query: (round: number) => Partial<SessionQuery>, goal = 10): Goal => ({
    subject: subject(name, (round) => source.list({ limit: 20, order: "desc", ...query(round) })),
    goal,
  });
  let cursor: string | undefined;
  const pages = subject("20 sessions, page after page", async () => {
    cursor = (await source.list({ limit: 20, order: "desc", ...(cursor && { cursor }) })).next;
  });
  return [
    list("20 sessions, newest first", () => ({}), 5),
    { subject: pages, goal: 5 },
    list("20 sessions of a name", (i) => ({ sandboxName: `name-${(i * 61) % 20_000}` })),
    list("20 sessions behind a session's id", (i) => ({ before: { at: somewhere(i), id: "sbx_5" } })),
    list("20 sessions that are not over", () => ({ open: true })),
    list("20 sessions containing what 100 have", (i) => ({ contains: { user: (i * 31) % 10_000 } })),
    list("100 sessions containing what 100 have", (i) => ({ limit: 100, contains: { user: (i * 37) % 10_000 } })),
    list("20 sessions containing a nested value that 100 have", (i) => ({
      contains: { place: { rack: (i * 41) % 10_000 } },
    })),
    list("20 sessions containing what half have", (i) => ({ contains: { half: i % 2 }, before: { at: somewhere(i) } })),
    list("20 sessions containing two common values", (i) => ({ contains: { half: i % 2, env: `${i % 5}` } })),
    list("20 sessions containing what none have", (i) => ({ contains: { user: -1 - i, half: 0 } })),
    {
      subject: subject("20 sessions until a time, with the total", (i) =>
        timeline(source, { limit: 20, until: { at: somewhere(i) } }),
      ),
      goal: 10,
    },
    { subject: subject("the newest 20 sessions, with the total", () => timeline(source, { limit: 20 })), goal: 10 },
  ];
}

/** an operation that is repeated; it gets the number of the round */
export function subject(name: string, use: (round: number) => Promise<unknown>): Subject {
  let round = 0;
  return {
    name,
    async run() {
      await use(round++);
      return undefined;
    },
  };
}
