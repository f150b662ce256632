/** Runs commands on machines to their end and collects their output, for most tests of a runtime. */

import type { ExecSpec, ExitStatus, Machine, OutputChunk, Process } from "../../../src/core/ports/runtime.ts";

export interface Ran {
  status: ExitStatus;
  stdout: string;
  stderr: string;
  pty: string;
}

export interface Gathered {
  chunks: OutputChunk[];
  stdout: string;
  stderr: string;
  pty: string;
  /** bytes received, and bytes reported as missing */
  length: number;
  dropped: number;
}

let count = 0;

/** an id that no other command has */
export function commandId(): string {
  count++;
  return `cmd-${process.pid}-${count}`;
}

export function start(machine: Machine, argv: string[], options: Partial<ExecSpec> = {}): Promise<Process> {
  return machine.exec({ id: commandId(), argv, ...options });
}

export async function run(machine: Machine, argv: string[], options: Partial<ExecSpec> = {}): Promise<Ran> {
  const command = await start(machine, argv, options);
  const { stdout, stderr, pty } = await gather(command.output());
  return { status: await command.exited, stdout, stderr, pty };
}

export function sh(machine: Machine, script: string, options: Partial<ExecSpec> = {}): Promise<Ran> {
  return run(machine, ["sh", "-c", script], options);
}

export function python(machine: Machine, script: string, options: Partial<ExecSpec> = {}): Promise<Ran> {
  return run(machine, ["python3", "-c", script], options);
}

export async function gather(output: AsyncIterable<OutputChunk>): Promise<Gathered> {
  const chunks: OutputChunk[] = [];
  for await (const chunk of output) chunks.push(chunk);
  const text = (stream: OutputChunk["stream"]) =>
    Buffer.concat(chunks.filter((chunk) => chunk.stream === stream).map((chunk) => chunk.data)).toString();
  return {
    chunks,
    stdout: text("stdout"),
    stderr: text("stderr"),
    pty: text("pty"),
    length: chunks.reduce((sum, chunk) => sum + chunk.data.length, 0),
    dropped: chunks.reduce((sum, chunk) => sum + (chunk.dropped ?? 0), 0),
  };
}

/** reads until the text has appeared, and closes the output */
export async function until(output: AsyncIterable<OutputChunk>, text: string): Promise<string> {
  let seen = "";
  for await (const chunk of output) {
    seen += Buffer.from(chunk.data).toString();
    if (seen.includes(text)) return seen;
  }
  throw new Error(`The output ended without "${text}": ${JSON.stringify(seen)}`);
}
