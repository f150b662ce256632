/** `sandkeep top`: what the running sandboxes use, in a table that is drawn again and again. */

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

Shows what the running sandboxes use, the busiest first. On a terminal the table is drawn again every two seconds until
Ctrl-C; elsewhere it is printed once.

Options:
  --every <duration>       how often it is drawn, such as 500ms or 5s
  --once                   print it once
${daemonUsage}
Example:
  sandkeep top --every 5s
`;

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
  const ended = new AbortController();
  const end = () => ended.abort();
  for (const signal of ["SIGINT", "SIGTERM"]) context.signals.on(signal, end);
  // The other screen of the terminal: what was there before comes back.
  await context.write(output, "\x1b[?1049h\x1b[?25l");
  try {
    while (!ended.signal.aborted) {
      const rows = output.rows || 24;
      const shown = lines(await loads(daemon), paperOf(output, environment)).slice(0, rows - 1);
      await context.write(output, `\x1b[H${shown.map((line) => `${line}\x1b[K\n`).join("")}\x1b[J`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pause);
        const wake = () => {
          clearTimeout(timer);
          resolve();
        };
        ended.signal.addEventListener("abort", wake, { once: true });
      });
    }
  } finally {
    await context.write(output, "\x1b[?25h\x1b[?1049l");
    for (const signal of ["SIGINT", "SIGTERM"]) context.signals.off(signal, end);
  }
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
