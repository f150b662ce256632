/** Commands on Vercel's wire: run attached or detached, list, get and wait, logs, kill. */

import type { Hono } from "hono";
import type { z } from "zod";
import type { Caller, Command } from "../../../core/model/sandbox.ts";
import { json } from "../../kit/http.ts";
import { once } from "../../kit/idempotency.ts";
import { lateJson, ndjson } from "../../kit/live.ts";
import { logLines } from "../../kit/logs.ts";
import { daemonCloses, inVercelsWords, streamClosed, VercelError, worded } from "../errors.ts";
import { bodyOf, callerOf, type Dialect, type Env, idOf, queryOf } from "../request.ts";
import type { Schemas } from "../schemas.ts";
import { currentWords, type SessionWords } from "./session-words.ts";

export function commandRoutes(app: Hono<Env>, dialect: Dialect, words: SessionWords = currentWords): void {
  const { core, schemas, idempotency } = dialect;
  const commands = `${words.session}/cmd`;

  app.post(commands, async (c) => {
    const { value: query } = queryOf(c, schemas.runQuery);
    const caller = await callerOf(c, dialect, query);
    const { value, text } = await bodyOf(c, dialect, schemas[words.runBody]);
    const wait = value.wait || query.wait;
    const logs = value.logs || query.logs;
    const sessionId = idOf(c, "sessionId");
    const key = c.req.header("idempotency-key");
    const request = { key, team: caller.teamId, scope: `${caller.teamId} run ${sessionId}`, request: text };
    let started: Command | undefined;
    const id = await once(idempotency, request, async () => {
      started = await run(dialect, caller, sessionId, value);
      return started.id;
    });
    // A repeat attaches to the same command and gets its output from the start.
    const command = started ?? (await core.commands.get(caller, sessionId, id));
    if (!wait) return json({ command: words.command(begun(command)) });
    return logStream(dialect, (signal) => attached(dialect, caller, { command, logs, words, signal }));
  });

  app.get(commands, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const all = await core.commands.list(caller, idOf(c, "sessionId"));
    return json({ commands: all.map(words.command) });
  });

  app.get(`${commands}/:commandId`, async (c) => {
    const { value } = queryOf(c, schemas.commandQuery);
    const caller = await callerOf(c, dialect, value);
    const command = await core.commands.get(caller, idOf(c, "sessionId"), idOf(c, "commandId"));
    if (!value.wait || command.exitCode !== undefined) return json({ command: words.command(command) });
    return whenEnded(dialect, caller, command, words);
  });

  app.get(`${commands}/:commandId/logs`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const command = await core.commands.get(caller, idOf(c, "sessionId"), idOf(c, "commandId"));
    return logStream(dialect, (signal) => output(dialect, caller, command, signal));
  });

  app.post(words.kill, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.killBody);
    const ids = [idOf(c, "sessionId"), idOf(c, "commandId")] as const;
    const signalled = await core.commands.kill(caller, ...ids, value.signal, { alone: !value.group });
    // The answer has no exit code: the program may handle the signal, or take time to end.
    return json({ command: words.command(begun(signalled)) });
  });
}

/** takes what the Python SDK writes to the standard input of a command started with `attachStdin` */
export function stdinRoute(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;
  app.post(`${currentWords.session}/cmd/:commandId/stdin`, async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.stdinBody);
    const ids = [idOf(c, "sessionId"), idOf(c, "commandId")] as const;
    const data = Buffer.from(value.data, "base64");
    const fed = core.commands.feed(caller, ...ids, { ...value, data, patience: stdinPatience });
    const { command, taken, isTaken } = await worded(fed, {
      gone: () => new VercelError(404, "command_not_found_or_exited", "Command not found, or it has exited."),
    });
    if (isTaken) return json({ command: currentWords.command(command), bytesWritten: taken });
    // The client sends the rest again from the offset that `bytesWritten` gives.
    const message = "The command does not read its standard input.";
    return json({ error: { code: "command_stdin_timeout", message, bytesWritten: taken } }, 504);
  });
}

/** longest that a command may take to read, in ms; the client gives up after two timeouts without progress */
const stdinPatience = 20_000;

/** the command as it was when it began, even if it has ended since */
function begun({ exitCode: _, endedAt: __, endCause: ___, ...command }: Command): Command {
  return command;
}

async function run(
  { core }: Dialect,
  caller: Caller,
  sessionId: string,
  { command: name, args, cwd, env, sudo, timeout, attachStdin }: z.output<Schemas["runBody"]>,
): Promise<Command> {
  const started = core.commands.run(caller, sessionId, {
    name,
    args,
    env,
    sudo,
    ...(cwd !== undefined && { cwd }),
    ...(timeout !== undefined && { timeLimit: timeout }),
    ...(attachStdin && { stdin: true }),
  });
  return worded(started, {
    "invalid executable": () =>
      new VercelError(
        400,
        "executable_not_found",
        `[invalid_argument] executable file not found in $PATH: ${name.slice(0, 256)}`,
      ),
  });
}

interface Attached {
  command: Command;
  logs: boolean;
  words: SessionWords;
  signal: AbortSignal;
}

/** the command as it begins, its output, and the command as it ended */
async function* attached(
  dialect: Dialect,
  caller: Caller,
  { command, logs, words, signal }: Attached,
): AsyncGenerator<object> {
  yield { command: words.command(begun(command)) };
  if (logs) yield* output(dialect, caller, command, signal);
  signal.throwIfAborted();
  const ended = await dialect.core.commands.wait(caller, command.sessionId, command.id, signal);
  // Clients that ask for no logs always parse the second line as the command.
  if (logs && ended.endCause === "session-ended") yield streamClosed;
  else yield { command: words.command(ended) };
}

async function* output(
  { core }: Dialect,
  caller: Caller,
  { sessionId, id }: Command,
  signal: AbortSignal,
): AsyncGenerator<object> {
  yield* logLines(await core.commands.output(caller, sessionId, id, { signal }));
}

function logStream(dialect: Dialect, lines: (signal: AbortSignal) => AsyncIterable<object>): Response {
  return ndjson(lines, {
    patience: dialect.limits.patience,
    ending: dialect.ending,
    failure(error) {
      if (dialect.ending?.aborted) return daemonCloses;
      if (inVercelsWords(error).status >= 500) dialect.logError(error);
      return streamClosed;
    },
  });
}

function whenEnded(dialect: Dialect, caller: Caller, { sessionId, id }: Command, words: SessionWords): Response {
  const ended = async (signal: AbortSignal) => ({
    command: words.command(await dialect.core.commands.wait(caller, sessionId, id, signal)),
  });
  return lateJson(ended, {
    patience: dialect.limits.patience,
    failure(error) {
      const { status, code, message } = inVercelsWords(error);
      if (status >= 500) dialect.logError(error);
      return { error: { code, message } };
    },
  });
}
