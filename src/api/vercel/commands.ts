/** Commands on Vercel's wire: run attached or detached, list, get and wait, logs, kill. */

import type { Hono } from "hono";
import type { z } from "zod";
import type { Caller, Command } from "../../core/sandbox.ts";
import { asciiJson, json, liveBody } from "../http.ts";
import { once } from "../idempotency.ts";
import { inVercelsWords, streamClosed, VercelError, worded } from "./errors.ts";
import { logLines } from "./logs.ts";
import { bodyOf, callerOf, type Dialect, type Env, idOf, queryOf } from "./request.ts";
import type { Schemas } from "./schemas.ts";
import * as wire from "./wire.ts";

export function commandRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas, idempotency } = dialect;
  const commands = "/:version{v[234]}/sandboxes/sessions/:sessionId/cmd";

  app.post(commands, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value, text } = await bodyOf(c, dialect, schemas.runBody);
    const sessionId = idOf(c, "sessionId");
    const key = c.req.header("idempotency-key");
    const request = { key, scope: `${caller.teamId} run ${sessionId}`, request: text };
    let started: Command | undefined;
    const id = await once(idempotency, request, async () => {
      started = await run(dialect, caller, sessionId, value);
      return started.id;
    });
    // A repeat attaches to the same command, whose output is there from the start.
    const command = started ?? (await core.commands.get(caller, sessionId, id));
    if (!value.wait) return json({ command: wire.command(begun(command)) });
    return ndjson(dialect, (signal) => attached(dialect, caller, command, value.logs, signal));
  });

  app.get(commands, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const all = await core.commands.list(caller, idOf(c, "sessionId"));
    return json({ commands: all.map(wire.command) });
  });

  app.get(`${commands}/:commandId`, async (c) => {
    const { value } = queryOf(c, schemas.commandQuery);
    const caller = await callerOf(c, dialect, value);
    const command = await core.commands.get(caller, idOf(c, "sessionId"), idOf(c, "commandId"));
    if (!value.wait || command.exitCode !== undefined) return json({ command: wire.command(command) });
    return whenEnded(dialect, caller, command);
  });

  app.get(`${commands}/:commandId/logs`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const command = await core.commands.get(caller, idOf(c, "sessionId"), idOf(c, "commandId"));
    return ndjson(dialect, (signal) => output(dialect, caller, command, signal));
  });

  app.post(`${commands}/:commandId/kill`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.killBody);
    const killed = await core.commands.kill(caller, idOf(c, "sessionId"), idOf(c, "commandId"), value.signal);
    return json({ command: wire.command(killed) });
  });
}

/** as it was when it began, also when it has ended in the meantime */
function begun({ exitCode: _, endedAt: __, endCause: ___, ...command }: Command): Command {
  return command;
}

async function run(
  { core }: Dialect,
  caller: Caller,
  sessionId: string,
  { command: name, args, cwd, env, sudo, timeout }: z.output<Schemas["runBody"]>,
): Promise<Command> {
  const started = core.commands.run(caller, sessionId, {
    name,
    args,
    env,
    sudo,
    ...(cwd !== undefined && { cwd }),
    ...(timeout !== undefined && { timeLimit: timeout }),
  });
  return worded(started, {
    "unknown-executable": () =>
      new VercelError(
        400,
        "executable_not_found",
        `[invalid_argument] executable file not found in $PATH: ${name.slice(0, 256)}`,
      ),
  });
}

/** the command as it begins, what it prints, and the command as it ended */
async function* attached(
  dialect: Dialect,
  caller: Caller,
  command: Command,
  withLogs: boolean,
  signal: AbortSignal,
): AsyncGenerator<object> {
  yield { command: wire.command(begun(command)) };
  if (withLogs) yield* output(dialect, caller, command, signal);
  signal.throwIfAborted();
  const ended = await dialect.core.commands.wait(caller, command.sessionId, command.id, signal);
  if (ended.endCause === "session-ended") yield streamClosed;
  else yield { command: wire.command(ended) };
}

async function* output(
  { core }: Dialect,
  caller: Caller,
  { sessionId, id }: Command,
  signal: AbortSignal,
): AsyncGenerator<object> {
  yield* logLines(await core.commands.output(caller, sessionId, id, { signal }));
}

/** the content type is exactly this: with a charset the clients take it for something else */
function ndjson({ limits, trouble }: Dialect, lines: (signal: AbortSignal) => AsyncIterable<object>): Response {
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    try {
      for await (const line of lines(signal)) yield `${asciiJson(line)}\n`;
    } catch (error) {
      if (signal.aborted) return;
      if (inVercelsWords(error).status >= 500) trouble(error);
      yield `${asciiJson(streamClosed)}\n`;
    }
  }
  return new Response(liveBody({ pieces, filler: "\n", patience: limits.patience }), {
    headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" },
  });
}

/**
 * The headers go out at once and blanks follow, which JSON allows in front: a client that waits for headers gives up
 * after five minutes. The status is on its way by then, so what goes wrong later can only be told in the body.
 */
function whenEnded({ core, limits, trouble }: Dialect, caller: Caller, { sessionId, id }: Command): Response {
  async function* pieces(signal: AbortSignal): AsyncGenerator<string> {
    try {
      const ended = await core.commands.wait(caller, sessionId, id, signal);
      yield JSON.stringify({ command: wire.command(ended) });
    } catch (error) {
      if (signal.aborted) return;
      const { status, code, message } = inVercelsWords(error);
      if (status >= 500) trouble(error);
      yield JSON.stringify({ error: { code, message } });
    }
  }
  return new Response(liveBody({ pieces, filler: " ", patience: limits.patience }), {
    headers: { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" },
  });
}
