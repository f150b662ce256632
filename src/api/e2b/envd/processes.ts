/**
 * envd's process service, on top of the core's commands. It lists every command that runs in the sandbox, whichever
 * wire started it. It knows tags and variables only of those that it started itself.
 */

import { inHome } from "../../../core/files/user-files.ts";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Command } from "../../../core/model/sandbox.ts";
import type { OutputChunk } from "../../../core/ports/runtime.ts";
import type { Service } from "../../kit/dialect.ts";
import { variables } from "../wire.ts";
import { deadlineExceeded, deadlineOf, type EnvdCall, keepaliveOf, timeoutOf } from "./call.ts";
import { ConnectError, clientStream, serverStream, unary } from "./connect.ts";
import { endEvent, type Input, messages, type Selector, type StartMessage } from "./messages.ts";
import { memory, ProcessNotes } from "./process-notes.ts";

export type Method = (call: EnvdCall) => Response | Promise<Response>;

const keepalive = { event: { keepalive: {} } };
/** how long a command may take to read what it is sent, in ms */
const inputPatience = 60_000;
/** longest wait for the end of a killed process, in ms */
const killPatience = 1000;
/** longest wait for the end of a process that no longer takes requests, in ms */
const endPatience = 200;
/** most bytes of output in one message, before base64 adds a third */
const longestChunk = 64 << 10;

export function processMethods(service: Service): Record<string, Method> {
  const { core, clock, logError, ending } = service;
  const notes = new ProcessNotes(clock);
  const report = { logError };

  return {
    Start: (call) =>
      serverStream(call.request, {
        schema: messages.start,
        keepalive: keepaliveOf(call.request, keepalive),
        ending,
        logError,
        messages: (message, signal) => started(call, message, signal),
      }),
    Connect: (call) =>
      serverStream(call.request, {
        schema: messages.process,
        keepalive: keepaliveOf(call.request, keepalive),
        ending,
        logError,
        messages: ({ process }, signal) => connected(call, process, signal),
      }),
    List: (call) => unary(call.request, messages.empty, report, () => list(call)),
    Update: (call) =>
      unary(call.request, messages.update, report, async ({ process, pty }) => {
        await use(call, process, async ({ id }) => {
          if (!pty?.size) return;
          const { rows, cols: columns } = pty.size;
          await core.commands.resize(call.owner, call.session.id, id, { rows, columns });
        });
        return {};
      }),
    SendInput: (call) =>
      unary(call.request, messages.sendInput, report, async ({ process, input }) => {
        await use(call, process, (command) => send(call, command, input));
        return {};
      }),
    StreamInput: (call) =>
      clientStream(call.request, messages.streamInput, report, async (received) => {
        let command: Command | undefined;
        for await (const { start, data } of received) {
          if (start) command = (await running(call, start.process)).command;
          if (!data) continue;
          if (!command) throw new ConnectError("invalid_argument", "Cannot send input: no message names the process");
          const to = command;
          await orEnded(call, to, () => send(call, to, data.input));
        }
        return {};
      }),
    SendSignal: (call) =>
      unary(call.request, messages.sendSignal, report, async ({ process, signal }) => {
        const { command } = await running(call, process);
        await core.commands.kill(call.owner, call.session.id, command.id, signal);
        // Wait for the end, so that the client's next request finds the process gone.
        const soon = AbortSignal.timeout(killPatience);
        if (signal === 9)
          await core.commands.wait(call.owner, call.session.id, command.id, soon).catch(() => undefined);
        return {};
      }),
    CloseStdin: (call) =>
      unary(call.request, messages.process, report, async ({ process }) => {
        await use(call, process, async ({ id }) => {
          if (notes.of(call.session.id, id)?.isPty) {
            throw new ConnectError(
              "failed_precondition",
              "Cannot close the standard input of a terminal: send it Ctrl+D",
            );
          }
          await core.commands.closeStdin(call.owner, call.session.id, id);
        });
        return {};
      }),
  };

  async function* started(call: EnvdCall, message: StartMessage, signal: AbortSignal): AsyncGenerator<object> {
    const command = await run(call, message);
    const place = await core.commands.process(call.owner, call.session.id, command.id);
    const { tag, pty } = message;
    const pid = place?.pid ?? 0;
    notes.add(call.session.id, command.id, { pid, tag, envs: message.process.envs, isPty: pty !== undefined });
    // Whether or not a client follows it.
    const over = () => notes.end(call.session.id, command.id);
    void core.commands.wait(call.owner, call.session.id, command.id).then(over, over);
    yield { event: { start: { pid } } };
    yield* followed(call, command, { from: 0 }, signal);
  }

  async function run({ owner, sandbox, session, user, request }: EnvdCall, message: StartMessage): Promise<Command> {
    const { process, pty, stdin = true } = message;
    const timeLimit = timeoutOf(request);
    const cwd = await directory(owner, session, user, process.cwd ?? "");
    try {
      return await core.commands.run(owner, session.id, {
        name: process.cmd,
        args: process.args,
        cwd,
        facts: variables(sandbox),
        env: process.envs,
        user,
        ...(timeLimit !== undefined && { timeLimit }),
        ...(pty && { pty: { rows: pty.size?.rows ?? 24, columns: pty.size?.cols ?? 80 } }),
        ...((pty || stdin) && { stdin: true }),
      });
    } catch (error) {
      if (isSandkeepError(error, "invalid", "directory"))
        throw new ConnectError("invalid_argument", `cwd '${cwd}' does not exist`);
      if (isSandkeepError(error, "invalid", "user"))
        throw new ConnectError("unauthenticated", `invalid username: '${user ?? session.user}'`);
      throw error;
    }
  }

  /** the absolute working directory; looks up the user's home only for a relative path */
  async function directory(
    owner: EnvdCall["owner"],
    session: EnvdCall["session"],
    user: string | undefined,
    cwd: string,
  ): Promise<string> {
    if (cwd === "" || cwd.startsWith("/")) return cwd || session.cwd;
    const { home } = await core.userFiles.account(owner, session.id, user);
    return inHome(home, session.cwd, cwd);
  }

  async function* connected(call: EnvdCall, selector: Selector, signal: AbortSignal): AsyncGenerator<object> {
    const { command, pid, end } = await find(call, selector);
    yield { event: { start: { pid } } };
    // Like the hosted service, send only output from now on.
    yield* followed(call, command, { from: end, isConnection: true }, signal);
  }

  /** a command's output from an offset on, and its end */
  async function* followed(
    { owner, session, request }: EnvdCall,
    { id }: Command,
    { from, isConnection = false }: { from: number; isConnection?: boolean },
    gone: AbortSignal,
  ): AsyncGenerator<object> {
    // The time limit of a Start call applies to the command itself, which ends then.
    const { signal, isOver } = isConnection ? deadlineOf(request, gone) : { signal: gone, isOver: () => false };
    try {
      const output = await core.commands.output(owner, session.id, id, { from, signal });
      for await (const chunk of output) yield* dataEvents(chunk);
      signal.throwIfAborted();
      const ended = await core.commands.wait(owner, session.id, id, signal);
      if (ended.endCause === "timeout") throw deadlineExceeded();
      if (ended.endCause === "session-ended") {
        throw new ConnectError("unavailable", "Cannot follow the process: its sandbox has stopped");
      }
      const exit = await core.commands.exit(owner, id);
      yield { event: { end: endEvent(exit ?? { code: ended.exitCode ?? 0 }) } };
    } catch (error) {
      if (isOver()) throw deadlineExceeded();
      throw error;
    }
  }

  async function list({ owner, session }: EnvdCall): Promise<object> {
    const all = await core.commands.running(owner, session.id);
    const processes = all.map(({ command: { id, name, args, cwd }, pid }) => {
      const { tag, envs = {} } = notes.of(session.id, id) ?? {};
      return { config: { cmd: name, args, envs, cwd }, pid, ...(tag !== undefined && { tag }) };
    });
    return { processes };
  }

  /** the process with this pid or tag, running or recently ended */
  async function find({ owner, session }: EnvdCall, selector: Selector) {
    const { pid, tag } = selector;
    const alive = await core.commands.running(owner, session.id);
    const found = alive.findLast((one) =>
      tag === undefined ? one.pid === pid : notes.of(session.id, one.command.id)?.tag === tag,
    );
    if (found) return found;
    const id = notes.ended(session.id, selector, new Set(alive.map(({ command }) => command.id)));
    const ended =
      id === undefined
        ? await endedLately(owner, session, selector)
        : await core.commands.process(owner, session.id, id);
    if (ended?.exit && clock() - ended.exit.exitedAt < memory) return ended;
    const name = tag === undefined ? `pid ${pid}` : `tag '${tag.slice(0, 64)}'`;
    throw new ConnectError("not_found", `process with ${name} not found`);
  }

  /** the last one that ended with this pid; this daemon has no notes of commands that an earlier one started */
  async function endedLately(owner: EnvdCall["owner"], session: EnvdCall["session"], { pid }: Selector) {
    if (pid === undefined) return undefined;
    const since = clock() - memory;
    const commands = await core.commands.list(owner, session.id);
    for (const { id } of commands.filter(({ endedAt = 0 }) => endedAt > since).toReversed()) {
      const process = await core.commands.process(owner, session.id, id);
      if (process?.pid === pid) return process;
    }
    return undefined;
  }

  async function running(call: EnvdCall, selector: Selector) {
    const found = await find(call, selector);
    if (!found.exit) return found;
    throw hasEnded(found.pid);
  }

  /** works with a process that runs */
  async function use(call: EnvdCall, selector: Selector, work: (command: Command) => Promise<void>): Promise<void> {
    const { command } = await running(call, selector);
    await orEnded(call, command, () => work(command));
  }

  /** says that the process has ended if that is why the work failed: it may end at any moment after it was found */
  async function orEnded({ owner, session }: EnvdCall, { id }: Command, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!isSandkeepError(error, "gone")) throw error;
      await core.commands.wait(owner, session.id, id, AbortSignal.timeout(endPatience)).catch(() => undefined);
      const ended = await core.commands.process(owner, session.id, id);
      throw ended?.exit ? hasEnded(ended.pid) : error;
    }
  }

  async function send({ owner, session }: EnvdCall, { id }: Command, input: Input | undefined): Promise<void> {
    const isPty = notes.of(session.id, id)?.isPty;
    if (input?.pty && isPty === false) {
      throw new ConnectError("failed_precondition", "Cannot send terminal input: the process has no terminal");
    }
    if (input?.stdin && isPty) {
      throw new ConnectError("failed_precondition", "Cannot send standard input: the process has a terminal");
    }
    const data = input?.stdin ?? input?.pty;
    if (!data) throw new ConnectError("invalid_argument", "Cannot send input: the message has none");
    if (!(await core.commands.append(owner, session.id, id, data, inputPatience)))
      throw new ConnectError("deadline_exceeded", "Cannot send input: the process does not read it");
  }
}

function hasEnded(pid: number): ConnectError {
  return new ConnectError("not_found", `process with pid ${pid} not found: it has ended`);
}

function* dataEvents({ stream, data, dropped }: OutputChunk): Generator<object> {
  if (dropped) {
    const note = `[sandkeep] ${dropped} bytes of earlier output are no longer kept\n`;
    yield { event: { data: { stderr: Buffer.from(note).toString("base64") } } };
  }
  for (let at = 0; at < data.length; at += longestChunk) {
    const part = data.subarray(at, at + longestChunk);
    const encoded = Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString("base64");
    yield { event: { data: { [stream]: encoded } } };
  }
}
