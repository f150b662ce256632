/** Terminals on Vercel's wire: the text messages of its clients, and the message that reports the exit. */

import { z } from "zod";
import type { Caller } from "../../../core/model/sandbox.ts";
import { Terminal, type TerminalRequest } from "../../kit/connection/terminal.ts";
import { jsonOf, parsed } from "../../kit/http.ts";
import { sentenceOf } from "../errors.ts";
import type { Dialect } from "../request.ts";

export function vercelTerminal(
  { core, limits, clock, logError }: Dialect,
  caller: Caller,
  sessionId: string,
): Terminal {
  const exit = (code: number) => JSON.stringify({ type: "exit", code });
  const { grace } = limits.interactive;
  return new Terminal({ core, grace, clock, logError, read, exit, sentenceOf }, caller, sessionId);
}

const size = z.int().min(0).max(65_535).default(0);
const text = z.string().max(64 << 10);
const message = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("start"),
    command: text.min(1),
    args: z.array(text).max(4096).default([]),
    env: z
      .array(text.regex(/^[^=]+=/))
      .max(4096)
      .default([]),
    cwd: text.min(1).optional(),
    cols: size,
    rows: size,
  }),
  z.object({ type: z.literal("resize"), cols: size, rows: size }),
]);

function read(text: string): TerminalRequest {
  const wanted = parsed(message, jsonOf(text));
  if (wanted.type === "resize") return wanted;
  const { command: name, args, env, cwd, cols, rows } = wanted;
  const pairs = env.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]);
  const spec = { name, args, env: Object.fromEntries(pairs), cols, rows, ...(cwd !== undefined && { cwd }) };
  return { type: "start", spec };
}
