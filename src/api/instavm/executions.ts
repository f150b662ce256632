/**
 * Executions on InstaVM's wire: code runs as a command in the session's machine. If the machine has ended, a new one is
 * started. The timeout limits only the wait for the answer; the code runs on as long as its machine does.
 */

import type { Hono } from "hono";
import type { z } from "zod";
import { isSandkeepError } from "../../core/model/errors.ts";
import type { Command, Owner, Sandbox, Session } from "../../core/model/sandbox.ts";
import { json } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { notOffered } from "./errors.ts";
import {
  bodyOf,
  type Dialect,
  type Env,
  type InstavmContext,
  idOf,
  orNotFound,
  ownerByBody,
  ownerOf,
  queryOf,
  sessionOf,
} from "./request.ts";
import type { Schemas } from "./schemas.ts";
import { machineSpec } from "./sessions.ts";
import * as wire from "./wire.ts";

export function executionRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/execute", async (c) => {
    const { owner, sandbox, command, seconds } = await begun(c, dialect);
    const ended = await ending(c, dialect, owner, command, seconds);
    if (!ended) {
      const poll = `GET /v1/executions/${command.id}`;
      throw new Refusal(408, `Cannot answer within ${seconds} s: the code still runs, its result will be at ${poll}`);
    }
    const { stdout, stderr, truncated } = await output(dialect, owner, ended);
    return json({
      stdout,
      stderr,
      execution_time: wire.runTime(ended),
      cpu_time: await cpuTime(dialect, owner, ended),
      exit_code: ended.exitCode ?? null,
      execution_id: ended.id,
      session_id: sandbox.id,
      output_truncated: truncated,
    });
  });

  app.post("/execute_async", async (c) => {
    const { sandbox, command } = await begun(c, dialect);
    return json({ task_id: command.id, status: "running", session_id: sandbox.id, vm_id: command.sessionId });
  });

  app.get("/v1/executions", async (c) => {
    const { session_id: id, limit } = queryOf(c, schemas.executionsQuery);
    const owner = ownerOf(c);
    const all = id === undefined ? await core.commands.recent(owner, limit) : await ofSession(owner, id);
    const print = async (each: Command) => wire.execution(each, undefined, await cpuTime(dialect, owner, each));
    return json(await Promise.all(all.slice(0, limit).map(print)));
  });

  app.get("/v1/executions/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const owner = ownerOf(c);
    const command = await orNotFound(core.commands.find(owner, idOf(c, "Execution")), "Execution");
    return json(wire.execution(command, await output(dialect, owner, command), await cpuTime(dialect, owner, command)));
  });

  app.post("/kill", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { session_id: id } = await bodyOf(c, schemas.killBody);
    const owner = ownerOf(c);
    const sandbox = await sessionOf(dialect, owner, id).catch((error: unknown) => foreign(owner, id, error));
    const { session } = await core.sandboxes.get(owner, sandbox.name);
    if (session.stoppedAt !== undefined) throw new Refusal(404, "Session has no VM: none has run since the last ended");
    await core.sessions.stop(owner, session.id);
    return json({ message: "VM killed", session_id: sandbox.id, vm_id: session.id });
  });

  async function ofSession(owner: Owner, id: string): Promise<Command[]> {
    const { name } = await sessionOf(dialect, owner, id);
    const { items } = await core.sessions.list(owner, { sandboxName: name, limit: 100, order: "desc" });
    const commands = await Promise.all(items.map((session) => core.commands.list(owner, session.id)));
    return commands.flatMap((some) => some.toReversed());
  }

  /** tells a session of another team (403) from a missing one, as the hosted service does here */
  async function foreign(owner: Owner, id: string, error: unknown): Promise<never> {
    await core.sandboxes.byId(owner, id).catch((reason: unknown) => {
      if (isSandkeepError(reason, "forbidden", "sandbox"))
        throw new Refusal(403, "Not authorized: you do not own this session");
    });
    throw error;
  }
}

/** the session's machine, or a new one if it has ended; without an id, a new session */
export async function running(
  dialect: Dialect,
  owner: Owner,
  id: string | null | undefined,
): Promise<{ sandbox: Sandbox; session: Session }> {
  const { sandboxes } = dialect.core;
  if (id == null) return sandboxes.create(owner, machineSpec({}));
  const { name } = await sessionOf(dialect, owner, id);
  return sandboxes.resume(owner, name, { fresh: true });
}

type Language = NonNullable<z.output<Schemas["executeBody"]>["language"]>;

const interpreters: Record<Language, [program: string, option: string]> = {
  python: ["python3", "-c"],
  python3: ["python3", "-c"],
  bash: ["bash", "-c"],
  shell: ["bash", "-c"],
  sh: ["sh", "-c"],
  javascript: ["node", "-e"],
  js: ["node", "-e"],
  node: ["node", "-e"],
};

const usualTimeout = 60;

async function begun(c: InstavmContext, dialect: Dialect) {
  queryOf(c, dialect.schemas.emptyQuery);
  const body = await bodyOf(c, dialect.schemas.executeBody);
  const owner = await ownerByBody(c, dialect, body.api_key);
  if ((body.vault_ids ?? []).length > 0) throw notOffered("a vault is");
  const { sandbox, session } = await running(dialect, owner, body.session_id);
  const [name, option] = interpreters[body.language ?? "python"];
  const args = [option, body.command ?? body.code ?? ""];
  const command = await dialect.core.commands.run(owner, session.id, { name, args });
  return { owner, sandbox, command, seconds: body.timeout ?? usualTimeout };
}

/** the ended command; undefined when it takes longer, or when the client disconnects */
async function ending(
  c: InstavmContext,
  { core }: Dialect,
  owner: Owner,
  { sessionId, id }: Command,
  seconds: number,
): Promise<Command | undefined> {
  const signal = AbortSignal.any([AbortSignal.timeout(seconds * 1000), c.req.raw.signal]);
  try {
    return await core.commands.wait(owner, sessionId, id, signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

/** most bytes of one stream in an answer */
const mostOutput = 8 * 2 ** 20;

async function output({ core }: Dialect, owner: Owner, { sessionId, id }: Command): Promise<wire.Output> {
  const parts: Record<"stdout" | "stderr", Uint8Array[]> = { stdout: [], stderr: [] };
  const room = { stdout: mostOutput, stderr: mostOutput };
  let truncated = false;
  for await (const chunk of await core.commands.output(owner, sessionId, id, { follow: false })) {
    const stream = chunk.stream === "stderr" ? "stderr" : "stdout";
    const part = chunk.data.subarray(0, room[stream]);
    truncated ||= chunk.dropped !== undefined || part.length < chunk.data.length;
    room[stream] -= part.length;
    parts[stream].push(part);
    if (room.stdout === 0 && room.stderr === 0) break;
  }
  const text = (stream: "stdout" | "stderr") => Buffer.concat(parts[stream]).toString();
  return { stdout: text("stdout"), stderr: text("stderr"), truncated };
}

/** CPU time in seconds; null while the command runs, and once its output is no longer kept */
async function cpuTime({ core }: Dialect, owner: Owner, { id }: Command): Promise<number | null> {
  const exit = await core.commands.exit(owner, id);
  return exit ? exit.cpuTime / 1000 : null;
}
