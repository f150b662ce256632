/**
 * `sandkeep run -- true` from a shell, beside what it cannot do without: a sandbox of bubblewrap and a start of Node.
 * It goes through bin/sandkeep, so finding a Node counts, too.
 */

import { spawn } from "node:child_process";
import { startDaemon } from "../test/harness/daemon.ts";
import type { Undo } from "../test/harness/harness.ts";
import { sandkeepCommand } from "../test/harness/package.ts";
import { interleaved, median, type Subject, table, verdict } from "./measure.ts";
import { bubblewrap } from "./peers.ts";

const rounds = 30;

export async function benchCli(undo: Undo): Promise<string> {
  const { url, key } = await startDaemon(undo, { SANDKEEP_POOL_HOT: "16", SANDKEEP_POOL_WARM: "4" });
  const env = { ...process.env, SANDKEEP_URL: url, SANDKEEP_API_KEY: key };
  const ours = (name: string, args: string[]): Subject => ({
    name,
    async run() {
      await ended(sandkeepCommand(), args, env);
      // The pool fills while nothing happens.
      return () => new Promise((resolve) => setTimeout(resolve, 60));
    },
  });
  const subjects: Subject[] = [
    bubblewrap(["true"]),
    { name: "node -e 0", run: () => ended(process.execPath, ["-e", "0"], env) },
    ours("sandkeep --version", ["--version"]),
    ours("sandkeep run -- true", ["run", "--", "true"]),
  ];
  const series = await interleaved(subjects, rounds);
  const of = (name: string) => median(series.find((one) => one.name === name)?.samples ?? []);
  const floor = of("bwrap --unshare-all") + of("node -e 0");
  return [
    table("a program in a new sandbox, from the command line", series, "node -e 0"),
    verdict("sandkeep run -- true", of("sandkeep run -- true") / floor, 1.5, "x (bwrap + node)"),
  ].join("\n");
}

function ended(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const child = spawn(program, args, { env, stdio: ["ignore", "ignore", "inherit"] });
  child.once("error", reject);
  child.once("close", (code) =>
    code === 0 ? resolve(undefined) : reject(new Error(`${program} ${args.join(" ")} ended with ${code}`)),
  );
  return promise;
}
