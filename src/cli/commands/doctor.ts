/** `sandkeep doctor`: the isolation that this host can provide, what is missing, and the command that adds it. */

import { readArgs } from "../args.ts";
import { CliError } from "../errors.ts";
import { type Diagnosis, diagnose, type Finding } from "../host/diagnosis.ts";
import type { HostFacts } from "../host/host.ts";

export const doctorUsage = `Usage: sandkeep doctor [--json]

Says what isolation this host can give a sandbox, what is missing, and the command that adds it. Changes nothing.
Exits with 1 when sandboxes cannot run here.

Options:
  --json                   print everything that was found out, for programs
  --data-dir <directory>   where the daemon keeps its data (SANDKEEP_DATA_DIR)
`;

export interface DoctorContext {
  facts(dataDir: string | undefined): HostFacts | Promise<HostFacts>;
  print(line: string): void;
}

/** Returns the exit code. */
export async function doctorCommand(args: string[], { facts, print }: DoctorContext): Promise<number> {
  const options = { json: { type: "boolean" }, "data-dir": { type: "string" } } as const;
  const { values, positionals } = readArgs(args, doctorUsage, options);
  if (values.help) {
    print(doctorUsage.trimEnd());
    return 0;
  }
  if (positionals.length > 0) throw new CliError(`Cannot examine "${positionals[0]}"\n\n${doctorUsage.trimEnd()}`);
  const found = await facts(values["data-dir"]);
  const diagnosis = diagnose(found);
  if (values.json) print(JSON.stringify({ ...diagnosis, facts: found }, null, 2));
  else for (const line of report(diagnosis)) print(line);
  return diagnosis.ok ? 0 : 1;
}

const marks: Record<Finding["state"], string> = { ok: "ok", warning: "!!", missing: "NO" };

function report({ ok, isolation, findings }: Diagnosis): string[] {
  const width = Math.max(...findings.map(({ name }) => name.length));
  const lines = findings.flatMap(({ name, state, detail, fix }) => {
    const line = `${marks[state]}  ${name.padEnd(width)}  ${detail}`;
    return fix !== undefined ? [line, `    ${" ".repeat(width)}  run: ${fix}`] : [line];
  });
  const end = ok
    ? ["Sandboxes can run here. Each has:", ...isolation.map((phrase) => `  - ${phrase}`)]
    : ["Sandboxes cannot run here: put right what says NO."];
  return [...lines, "", ...end];
}
