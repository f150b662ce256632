/** `sandkeep top`: what the running sandboxes use, in a table that is drawn again and again. */

import { setTimeout as wait } from "node:timers/promises";
import { eachBounded } from "../../base/concurrency/each-bounded.ts";
import { sizeInWords } from "../../base/size-in-words.ts";
import { ApiError } from "../../client/client.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { misuse } from "../errors.ts";
import { memoryInWords } from "../print/output.ts";
import { plainJson } from "../print/plain.ts";
import { type Paper, paperOf, table } from "../print/table.ts";
import { durationOf } from "../units.ts";
import { sandboxesOf } from "./list.ts";

export const topUsage = `Usage: sandkeep top [options]

Shows what the running sandboxes use, the busiest first. On a terminal the table is drawn again every two seconds until q
or Ctrl-C; elsewhere it is printed once.

Options:
  --every <duration>       how often it is drawn, such as 500ms or 5s
  --once                   print it once
${daemonUsage}
Example:
  sandkeep top --every 5s
`;

/** what a terminal sends for it when nothing else reads its keys */
const ctrlC = "\x03";

/** requests at a time */
const parallel = 8;

interface Row {
  sandbox: string;
  vcpus: number;
  memoryLimit: number;
  processors: number;
  memory: number;
  disk: number | null;
  processes: number;
}

export async function topCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, topUsage, {
    every: { type: "string" },
    once: { type: "boolean" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(topUsage, context);
  if (positionals.length > 0) throw misuse("Cannot show a table: top takes no name", topUsage);
  const pause = durationOf("--every", values.every ?? "2s");
  const daemon = new Daemon(values, context);
  const { output, environment, print } = context;
  if (values.json) return print(plainJson(await loads(daemon))) as undefined;
  if (values.once || !output.isTTY) {
    for (const line of lines(await loads(daemon), paperOf(output, environment))) print(line);
    return;
  }
  await live(() => loads(daemon), pause, context);
}

/** draws the table again and again until q or Ctrl-C, and at once when the terminal gets another size */
async function live(read: () => Promise<Row[]>, pause: number, context: CommandContext): Promise<void> {
  const { input, output, environment, signals } = context;
  const ended = new AbortController();
  const end = () => ended.abort();
  const typed = (keys: Buffer) => {
    if (["q", "Q", ctrlC].some((key) => keys.includes(key))) end();
  };
  let known: Row[] = [];
  const draw = () => {
    const shown = screenOf(known, paperOf(output, environment), (output.rows || 24) - 1);
    return context.write(output, `\x1b[H${shown.map((line) => `${line}\x1b[K\n`).join("")}\x1b[J`);
  };
  const redraw = () => void draw();
  await using undo = new AsyncDisposableStack();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    signals.on(signal, end);
    undo.defer(() => void signals.off(signal, end));
  }
  if (input.isTTY) {
    input.setRawMode(true).on("data", typed);
    undo.defer(() => void input.off("data", typed).setRawMode(false).destroy());
  }
  // The other screen of the terminal: what was there before comes back.
  undo.defer(() => context.write(output, "\x1b[?25h\x1b[?1049l"));
  await context.write(output, "\x1b[?1049h\x1b[?25l");
  output.on("resize", redraw);
  undo.defer(() => void output.off("resize", redraw));
  while (!ended.signal.aborted) {
    known = await read();
    await draw();
    await wait(pause, undefined, { signal: ended.signal }).catch(() => undefined);
  }
}

/** as much of the table as fits; the last line says how many sandboxes do not */
function screenOf(rows: Row[], paper: Paper, height: number): string[] {
  const all = lines(rows, paper);
  if (all.length <= height) return all;
  const shown = all.slice(0, Math.max(1, height - 1));
  return [...shown, `${all.length - shown.length} more`];
}

async function loads(daemon: Daemon): Promise<Row[]> {
  const found: Row[] = [];
  const running = await Array.fromAsync(sandboxesOf(daemon, { state: ["running"] }));
  await eachBounded(parallel, running, async ({ name, vcpus, memory: memoryLimit, session }) => {
    const asked = daemon.client.call("getLoad", { params: { session: session.id }, query: daemon.team });
    const load = await asked.catch((error) => {
      // It may have ended meanwhile.
      if (error instanceof ApiError && [404, 409, 410].includes(error.status)) return undefined;
      throw error;
    });
    if (load) found.push({ sandbox: name, vcpus, memoryLimit, ...load });
  });
  return found.sort((one, other) => other.processors - one.processors || other.memory - one.memory);
}

function lines(rows: Row[], paper: Paper): string[] {
  const cells = rows.map(({ sandbox, vcpus, memoryLimit, processors, memory, disk, processes }) => [
    sandbox,
    `${Math.round(processors * 100)}% of ${vcpus}`,
    `${memoryInWords(Math.round(memory / 2 ** 20))} of ${memoryInWords(memoryLimit)}`,
    disk === null ? "-" : sizeInWords(disk),
    String(processes),
  ]);
  return table(["SANDBOX", "CPU", "MEMORY", "DISK", "PROCESSES"], cells, paper);
}
