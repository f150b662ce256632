/** `sandkeep doctor`: the isolation that this host can provide, what is missing, and the command that adds it. */

import { diagnose } from "../../host/diagnosis.ts";
import type { HostFacts } from "../../host/host.ts";
import { readArgs } from "../command.ts";
import { misuse } from "../errors.ts";

export const doctorUsage = `Usage: sandkeep doctor [--json]

Shows what isolation sandboxes have on this host, what is missing, and the command that adds it. Changes nothing.
Exits with 1 if sandboxes cannot run here. Each line begins with ok, with !! if sandboxes run with less, or with NO.

Options:
  --json                   print all findings as JSON
  --data-dir <directory>   where the daemon keeps its data (SANDKEEP_DATA_DIR)

Example:
  sandkeep doctor
`;

export interface DoctorContext {
  facts(dataDir: string | undefined): HostFacts | Promise<HostFacts>;
  print(line: string): void;
}

/** Returns the exit code. */
export async function doctorCommand(args: string[], { facts, print }: DoctorContext): Promise<number> {
  const options = { json: { type: "boolean" }, "data-dir": { type: "string" } } as const;
  const { values, positionals } = await readArgs(args, doctorUsage, options);
  if (values.help) {
    print(doctorUsage.trimEnd());
    return 0;
  }
  if (positionals.length > 0)
    throw misuse(`Cannot examine "${positionals[0]}": doctor examines this host, and takes no name`, doctorUsage);
  const found = await facts(values["data-dir"]);
  const diagnosis = diagnose(found);
  if (values.json) print(JSON.stringify({ ...diagnosis, facts: found }, null, 2));
  else for (const line of report(diagnosis)) print(line);
  return diagnosis.ok ? 0 : 1;
}

type Diagnosis = ReturnType<typeof diagnose>;
type Finding = Diagnosis["findings"][number];

const marks: Record<Finding["state"], string> = { ok: "ok", warning: "!!", missing: "NO" };

function report({ ok, isolation, findings }: Diagnosis): string[] {
  const width = Math.max(...findings.map(({ name }) => name.length));
  const lines = findings.flatMap(({ name, state, detail, fix }) => {
    const line = `${marks[state]}  ${name.padEnd(width)}  ${detail}`;
    return fix !== undefined ? [line, `    ${" ".repeat(width)}  run: ${fix}`] : [line];
  });
  const end = ok
    ? ["Sandboxes can run here. Each has:", ...isolation.map((phrase) => `  - ${phrase}`)]
    : ["Sandboxes cannot run here: first fix the lines that begin with NO."];
  return [...lines, "", ...end];
}
