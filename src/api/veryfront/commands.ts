/**
 * Commands on Veryfront's wire: run and wait, run and stream, run in the background. Each route exists twice: below the
 * session for clients of the API, and below its endpoint for clients that talk to the sandbox itself.
 */

import type { Hono } from "hono";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Caller, Command } from "../../core/model/sandbox.ts";
import { json, undoIfGone } from "../kit/http.ts";
import { lateJson, ndjson } from "../kit/live.ts";
import { logLines } from "../kit/logs.ts";
import { commandLine, printCommand, signalOf } from "./command.ts";
import { problemOf } from "./errors.ts";
import { outputOf } from "./output.ts";
import { bodyOf, commandOf, type Dialect, type Env, queryOf, sessionOf, type VeryfrontContext } from "./request.ts";

export function commandRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/sandbox-sessions/:session/commands/run", async (c) => {
    const command = await attended(c, dialect);
    return lateJson((signal) => result(dialect, c.get("caller"), command, signal), {
      patience: dialect.limits.patience,
      failure: (error) => problemOf(error, dialect.logError),
    });
  });

  for (const path of ["/sandbox-sessions/:session/commands/stream", "/veryfront/:session/exec"]) {
    app.post(path, async (c) => {
      const command = await attended(c, dialect);
      return ndjson((signal) => events(dialect, c.get("caller"), command, signal), {
        patience: dialect.limits.patience,
        failure: (error) => ({ type: "error", data: problemOf(error, dialect.logError).detail }),
      });
    });
  }

  for (const path of ["/sandbox-sessions/:session/commands", "/veryfront/:session/exec/commands"]) {
    app.post(path, async (c) => {
      const command = await started(c, dialect);
      return json(printCommand(command, await core.sessions.get(c.get("caller"), command.sessionId)), 201);
    });

    app.get(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const session = await core.sessions.get(c.get("caller"), sessionOf(c));
      const commands = await core.commands.list(c.get("caller"), session.id);
      return json({ commands: commands.map((each) => printCommand(each, session)) });
    });

    app.get(`${path}/:command`, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const session = await core.sessions.get(c.get("caller"), sessionOf(c));
      return json(printCommand(await core.commands.get(c.get("caller"), session.id, commandOf(c)), session));
    });

    app.get(`${path}/:command/output`, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const caller = c.get("caller");
      const session = await core.sessions.get(caller, sessionOf(c));
      // Get the command before its output: if it has ended by then, the output is complete.
      const command = await core.commands.get(caller, session.id, commandOf(c));
      const output = await core.commands.output(caller, session.id, command.id, { follow: false });
      return json({ ...printCommand(command, session), ...(await outputOf(output)) });
    });

    app.post(`${path}/:command/cancel`, async (c) => {
      queryOf(c, schemas.emptyQuery);
      await bodyOf(c, schemas.emptyBody, dialect.limits.body);
      const session = await core.sessions.get(c.get("caller"), sessionOf(c));
      return json(printCommand(await core.commands.cancel(c.get("caller"), session.id, commandOf(c)), session));
    });
  }
}

/** a command that is cancelled if its client disconnects: otherwise it would only keep the session alive */
async function attended(c: VeryfrontContext, dialect: Dialect): Promise<Command> {
  const command = await started(c, dialect);
  const cancel = async () => {
    // Commands keep running when the daemon stops.
    if (dialect.closing()) return;
    await dialect.core.commands
      .cancel(c.get("caller"), command.sessionId, command.id)
      .catch((error) => problemOf(error, dialect.logError));
  };
  undoIfGone(c.req.raw, cancel, dialect.logError);
  return command;
}

/** starts the command that a request asks for */
async function started(c: VeryfrontContext, { core, schemas, limits }: Dialect): Promise<Command> {
  queryOf(c, schemas.emptyQuery);
  const { command, cwd, env, timeout_seconds, projectReference } = await bodyOf(c, schemas.commandBody, limits.body);
  const id = sessionOf(c);
  if (projectReference !== undefined) await requireProject({ core }, c.get("caller"), id, projectReference);
  return core.commands.run(c.get("caller"), id, {
    ...commandLine(command),
    cwd,
    env,
    ...(timeout_seconds !== undefined && { timeLimit: Math.ceil(timeout_seconds * 1000) }),
  });
}

/** refuses a request whose project is not that of the session */
async function requireProject({ core }: Pick<Dialect, "core">, caller: Caller, id: string, project: string) {
  const session = await core.sessions.get(caller, id);
  const { projectId } = await core.access.owner(caller, { project });
  if (projectId === session.projectId) return;
  throw new SandkeepError("invalid", "Invalid request: the session is not one of the project in `projectReference`.");
}

async function result({ core }: Dialect, caller: Caller, command: Command, signal: AbortSignal): Promise<object> {
  const chunks = await core.commands.output(caller, command.sessionId, command.id, { signal });
  const output = await outputOf(chunks);
  const { exitCode } = await core.commands.wait(caller, command.sessionId, command.id, signal);
  return { ...output, exit_code: exitCode ?? null, signal: signalOf(exitCode) };
}

async function* events(
  { core }: Dialect,
  caller: Caller,
  command: Command,
  signal: AbortSignal,
): AsyncGenerator<object> {
  const output = await core.commands.output(caller, command.sessionId, command.id, { signal });
  for await (const { stream: type, data } of logLines(output)) yield { type, data };
  signal.throwIfAborted();
  const { exitCode, endCause } = await core.commands.wait(caller, command.sessionId, command.id, signal);
  if (endCause !== undefined) yield { type: "error", data: causes[endCause] };
  yield { type: "exit", exitCode: exitCode ?? 1 };
}

const causes: Record<NonNullable<Command["endCause"]>, string> = {
  "out-of-memory": "The command was ended: the sandbox's memory was used up",
  timeout: "The command was ended: its time was over",
  "session-ended": "The command was ended: its sandbox session has ended",
};
