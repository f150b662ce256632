/** A command: a program that a caller started in a session. */

import { z } from "zod";
import type { Command } from "../../../core/model/sandbox.ts";
import type { OutputChunk } from "../../../core/ports/runtime.ts";
import { environment } from "../../kit/environment.ts";
import { bytes, time } from "./values.ts";

const text = z.string().max(128 << 10);
export const terminalSize = { rows: z.int().min(1).max(65_535), columns: z.int().min(1).max(65_535) };

/** what starts a command */
export const newCommand = z
  .strictObject({
    command: text.min(1).optional().meta({
      description: "A program of the sandbox; no shell is involved. By default the image's ENTRYPOINT and CMD",
    }),
    args: z
      .array(text)
      .max(4096)
      .default([])
      .meta({ description: "Without a `command`, they replace the image's CMD" }),
    cwd: z.string().min(1).max(4096).optional(),
    env: environment.optional(),
    user: z.string().min(1).max(256).optional(),
    sudo: z.boolean().optional().meta({ description: "Whether it runs as root" }),
    timeout: z.int().min(1).optional().meta({ description: "Longest that it may run, in milliseconds" }),
    stdin: z.boolean().optional().meta({ description: "Whether you will write to its standard input" }),
    terminal: z.strictObject(terminalSize).optional().meta({ description: "Its terminal, if it needs one" }),
  })
  .meta({ id: "NewCommand" });

export const commandResource = z
  .object({
    id: z.string(),
    sessionId: z.string(),
    command: z.string().meta({ description: "The program" }),
    args: z.array(z.string()),
    cwd: z.string(),
    startedAt: time,
    endedAt: time.nullable(),
    exitCode: z.int().nullable().meta({ description: "null while it runs; 128 and more for a signal" }),
    endCause: z.enum(["out-of-memory", "timeout", "session-ended"]).nullable(),
  })
  .meta({ id: "Command" });

export function printCommand(command: Command): z.input<typeof commandResource> {
  return {
    id: command.id,
    sessionId: command.sessionId,
    command: command.name,
    args: command.args,
    cwd: command.cwd,
    startedAt: command.startedAt,
    endedAt: command.endedAt ?? null,
    exitCode: command.exitCode ?? null,
    endCause: command.endCause ?? null,
  };
}

export const outputLine = z
  .object({
    stream: z.enum(["stdout", "stderr"]).meta({ description: "A terminal's output is on stdout" }),
    data: z.string(),
    offset: bytes.meta({ description: "Of the first byte, counted over both streams" }),
    next: bytes.meta({ description: "`from` with which to continue after this line" }),
    dropped: bytes.meta({ description: "Bytes before this line that are no longer kept" }),
  })
  .meta({ id: "OutputLine" });

/** the output as lines; text is decoded in the order of each stream, so that no character is cut in two */
export async function* outputLines(
  output: AsyncIterable<OutputChunk>,
  encoding: "text" | "base64",
): AsyncGenerator<z.input<typeof outputLine>> {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const { offset, stream: source, data, dropped = 0 } of output) {
    const stream = source === "stderr" ? "stderr" : "stdout";
    const text =
      encoding === "base64" ? Buffer.from(data).toString("base64") : decoders[stream].decode(data, { stream: true });
    yield { stream, data: text, offset, next: offset + data.length, dropped };
  }
}
