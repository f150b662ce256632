/**
 * Waits for a command on behalf of a caller. It reports the running time and the last line of output as progress. If
 * the caller cancels, it kills the command with all its processes.
 */

import { messageOf } from "../../core/model/errors.ts";
import type { Command } from "../../core/model/sandbox.ts";
import type { OutputChunk } from "../../core/ports/runtime.ts";
import type { Call } from "./tool.ts";

const kill = 9;
const everyMs = 1000;
const longestLine = 200;

/** the command as it is after at most `patience` ms, ended or not */
export async function waitForCommand(call: Call, command: Command, patience: number): Promise<Command> {
  const { core, caller, signal } = call;
  const { sessionId, id } = command;
  const enough = AbortSignal.any([signal, AbortSignal.timeout(patience)]);
  const reporting = call.progress ? report(call, command, enough) : undefined;
  try {
    return await core.commands.wait(caller, sessionId, id, enough);
  } catch (error) {
    if (!enough.aborted) throw error;
    if (!signal.aborted) return await core.commands.get(caller, sessionId, id);
    // Commands keep running when the daemon stops.
    if (!call.closing()) await core.commands.kill(caller, sessionId, id, kill).catch(call.logError);
    throw error;
  } finally {
    reporting?.();
  }
}

/** starts the progress reports; returns a function that ends them */
function report(call: Call, command: Command, signal: AbortSignal): () => void {
  const started = performance.now();
  const over = new AbortController();
  let line = "";
  const follow = async () => {
    const { core, caller } = call;
    const output = await core.commands.output(caller, command.sessionId, command.id, {
      signal: AbortSignal.any([signal, over.signal]),
    });
    for await (const chunk of output) line = lastLine(chunk) ?? line;
  };
  // A failure here only affects the progress reports: callers read the output separately.
  follow().catch((error) => {
    line = `Cannot follow the output: ${messageOf(error)}`;
  });
  call.progress?.(0, `Command ${command.id} has started`);
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - started) / 100) / 10;
    call.progress?.(seconds, line || `Command ${command.id} has been running for ${Math.round(seconds)} s`);
  }, everyMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    over.abort();
  };
}

function lastLine({ data }: OutputChunk): string | undefined {
  const lines = Buffer.from(data.subarray(-4 * longestLine))
    .toString("utf8")
    .split("\n");
  return lines
    .findLast((line) => line.trim() !== "")
    ?.trim()
    .slice(-longestLine);
}
