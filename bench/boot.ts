/** Boot to first output, with and without pools, beside comparable tools; and commands in a live machine. */

import type { Machine } from "../src/core/ports/runtime.ts";
import type { LinuxRuntime } from "../src/runtime/linux/driver.ts";
import { interleaved, median, type Series, type Subject, table, timed, verdict } from "./measure.ts";
import { bubblewrap, crun, host, nsenter, unshare } from "./peers.ts";

let count = 0;

function nextId(): string {
  count++;
  return `bench-${process.pid}-${count}`;
}

/** runs a program to its end */
export async function runToEnd(machine: Machine, argv: string[]): Promise<void> {
  const process = await machine.exec({ id: nextId(), argv });
  await process.exited;
}

export function bootAndRun(name: string, runtime: LinuxRuntime, settle: () => Promise<void>): Subject {
  return {
    name,
    async run() {
      const machine = await runtime.boot({ id: nextId(), root: { image: "host" } });
      await runToEnd(machine, ["true"]);
      return async () => {
        await machine.stop();
        await runtime.forget(machine.id);
        await settle();
      };
    },
  };
}

export async function benchBoot(
  pooled: LinuxRuntime,
  cold: LinuxRuntime,
  folder: string,
  rounds: number,
): Promise<string> {
  const subjects = [
    host(["true"]),
    unshare(["true"]),
    bubblewrap(["true"]),
    crun(folder, ["true"]),
    bootAndRun("sandkeep, pools on", pooled, () => pooled.ready()),
    bootAndRun("sandkeep, pools off", cold, async () => {}),
  ].filter((subject) => subject !== undefined);
  const series = await interleaved(subjects, rounds);
  return [
    table("boot to the end of `true`", series, "bwrap --unshare-all"),
    verdict("pools on", ratio(series, "sandkeep, pools on"), 0.6, "x bwrap"),
    verdict("pools off", ratio(series, "sandkeep, pools off"), 1.5, "x bwrap"),
  ].join("\n");
}

export async function benchExec(runtime: LinuxRuntime, rounds: number): Promise<string> {
  const machine = await runtime.boot({ id: nextId(), root: { image: "host" } });
  const pid = runtime.firstProcess(machine.id);
  const subjects: Subject[] = [
    nsenter(pid, ["echo", "hi"]),
    {
      name: "sandkeep exec",
      run: async () => {
        await runToEnd(machine, ["echo", "hi"]);
        return undefined;
      },
    },
  ];
  const series = await interleaved(subjects, rounds);
  const each = 250;
  const callers = 8;
  const { took } = await timed(() =>
    Promise.all(
      Array.from({ length: callers }, async () => {
        for (let i = 0; i < each; i++) await runToEnd(machine, ["echo", "hi"]);
      }),
    ),
  );
  await machine.stop();
  await runtime.forget(machine.id);
  const perSecond = (callers * each * 1000) / took;
  const first = series.map(({ samples }) => median(samples));
  return [
    table("`echo` in a live machine", series, "nsenter"),
    verdict("echo", (first[1] ?? Number.NaN) / (first[0] ?? Number.NaN), 0.5, "x nsenter"),
    `  ${perSecond >= 500 ? "ok  " : "MISS"} ${callers} callers: ${perSecond.toFixed(0)} commands a second, goal 500`,
  ].join("\n");
}

function ratio(series: Series[], name: string): number {
  const of = (wanted: string) => median(series.find((one) => one.name === wanted)?.samples ?? []);
  return of(name) / of("bwrap --unshare-all");
}
