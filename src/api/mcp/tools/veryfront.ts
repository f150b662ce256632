/**
 * Veryfront's own tools, with its names and schemas, for clients that expect them. Their sessions are sessions of the
 * core, printed as on Veryfront's other wire.
 */

import { z } from "zod";
import type { Command, Session } from "../../../core/model/sandbox.ts";
import { commandLine, printCommand } from "../../veryfront/command.ts";
import { findSession, listSessions, printSession, sessionSpec } from "../../veryfront/session.ts";
import { waitForCommand } from "../command-wait.ts";
import { outputPart } from "../output.ts";
import { env, path, text } from "../schema.ts";
import { additive, type Call, destructive, readOnly, type Tool, type ToolSpec, tool } from "../tool.ts";

const second = 1000;
/** most bytes of output in an answer */
const cap = 256 << 10;

const nullableText = (description: string) => z.union([z.string(), z.null()]).describe(description);

const briefFields = {
  id: z.string().describe("The session's ID, which the other tools take."),
  short_id: z.string().describe("A shorter form of the ID, for people."),
  endpoint: z.string().describe("URL at which the session's HTTP API is."),
  status: z.string().describe("What the session does now: whether it starts, runs or has ended."),
  ttl_mode: z.enum(["default", "duration", "always_on"]).describe("How it is decided when the session ends."),
  ttl_hours: z
    .union([z.int().positive(), z.null()])
    .describe("Hours from its creation to its end; null unless ttl_mode is duration."),
  expires_at: nullableText("When the session ends, in ISO 8601; null if it does not end by itself."),
  created_at: z.string().describe("When the session was created, in ISO 8601."),
};

const sessionFields = {
  ...briefFields,
  project_id: nullableText("ID of the project that the session belongs to."),
  last_activity_at: nullableText("When the session was last used, in ISO 8601."),
};

const pageInfo = z
  .strictObject({
    self: nullableText("Cursor of this page; null on the first one."),
    // Always an empty object: a page has no link to the first one.
    first: z.looseObject({}).describe("Always empty."),
    next: nullableText("Cursor of the next page; null on the last one."),
    prev: nullableText("Cursor of the page before; null on the first one."),
  })
  .describe("Where the other pages are.");

const sessionId = text(64).min(1).describe("ID of the session.");
const project = z.uuid().optional();

const commandInput = {
  id: sessionId,
  command: text(128 << 10)
    .min(1)
    .describe("Command line, run by a shell in the session."),
  cwd: path.optional().describe("Working directory. Defaults to the workspace."),
  timeout_seconds: z.int().min(1).max(86_400).optional().describe("The command is killed when it runs longer."),
  env: env.optional().describe("Environment variables of the command."),
};

/** the required fields; answers also have the fields of the vendor's other wire */
const jobFields = {
  command_id: z.string(),
  status: z.enum(["running", "completed", "failed", "canceled"]),
  exit_code: z.union([z.int(), z.null()]),
};

export const veryfrontTools: Tool[] = [
  vendorTool({
    name: "list_sandbox_sessions",
    title: "List sandbox sessions",
    description:
      "List the sandbox sessions of a project that have not ended, newest first. Without project_id: of your default " +
      "project.",
    input: z.strictObject({
      project_id: project.describe("Project whose sessions are listed."),
      cursor: z.string().refine(isCursor, "`cursor` is not one.").optional().describe("next or prev of another page."),
      limit: z.int().min(1).max(100).optional().describe("How many sessions at most. Default: 20."),
    }),
    output: z.strictObject({
      data: z.array(z.strictObject(sessionFields).describe("One session.")).describe("The sessions of this page."),
      page_info: pageInfo,
    }),
    hints: readOnly,
    async run({ project_id, cursor, limit = 20 }, call) {
      const owner = await call.core.access.owner(call.caller, { project: project_id });
      const [{ items, pageInfo: pages }, { uuid }] = await Promise.all([
        listSessions(call.core, owner, { cursor, limit }),
        call.core.access.project(call.caller, undefined, owner.projectId),
      ]);
      const place = { publicUrl: call.publicUrl(), project: { uuid } };
      return { data: items.map((it) => printSession(it, place)), page_info: { ...pages, first: {} } };
    },
  }),
  vendorTool({
    name: "create_sandbox_session",
    title: "Create a sandbox session",
    description:
      "Start a sandbox session. Returns when it runs. ttl_mode says when it ends: once it has not been used for a while " +
      "(default), after ttl_hours (duration), or only when it is ended (always_on). Its files are deleted with it.",
    input: z
      .strictObject({
        project_id: project.describe("Project that the session will belong to. Default: yours."),
        ttl_mode: z.enum(["default", "duration", "always_on"]).optional().describe("When the session ends by itself."),
        ttl_hours: z.number().positive().max(24).optional().describe("Hours until it ends, with ttl_mode duration."),
      })
      .refine(({ ttl_mode: mode, ttl_hours: hours }) => (mode === "duration") === (hours !== undefined), {
        error: "`ttl_hours` should be given with `ttl_mode` duration, and only then.",
      }),
    output: z.strictObject(briefFields),
    hints: additive,
    async run({ project_id, ttl_mode: mode = "default", ttl_hours: hours }, call) {
      const owner = await call.core.access.owner(call.caller, { project: project_id });
      const { session, sandbox } = await call.core.sandboxes.create(owner, sessionSpec({ mode, hours }));
      if (call.signal.aborted) await call.core.sandboxes.abandon(owner, sandbox.id);
      call.signal.throwIfAborted();
      return brief(session, call);
    },
  }),
  vendorTool({
    name: "get_sandbox_session",
    title: "Get a sandbox session",
    description: "Look up a sandbox session by its ID. A session that has ended is not found.",
    input: z.strictObject({ id: sessionId }),
    output: z.strictObject(briefFields),
    hints: readOnly,
    run: async ({ id }, call) => brief(await findSession(call.core, call.caller, id), call),
  }),
  vendorTool({
    name: "execute_sandbox_command",
    title: "Execute a command in a session",
    description:
      "Run a short command in a sandbox session and wait for its end; it is killed after timeout_seconds (60 unless " +
      "you say otherwise), and when the call is cancelled. Use start_sandbox_command_job for what takes longer.",
    input: z.strictObject(commandInput),
    output: z.strictObject({
      command_id: z.string(),
      exit_code: z.union([z.int(), z.null()]),
      stdout: z.string(),
      stderr: z.string(),
      truncated: z.boolean().describe("Whether there is more output than this answer holds."),
      next_offset: z.int().min(0).describe("Bytes of output up to the end of this answer."),
      sandbox: z.string().describe("Name of the session's sandbox."),
    }),
    hints: { ...destructive, openWorldHint: true },
    async run({ timeout_seconds: seconds = 60, ...args }, call) {
      const command = await start(call, { ...args, timeout_seconds: seconds });
      // The time limit ends the command; allow some time until the end is known.
      const ended = await waitForCommand(call, command, (seconds + 30) * second);
      const chunks = await call.core.commands.output(call.caller, ended.sessionId, ended.id, { follow: false });
      const part = await outputPart(chunks, { from: 0, cap, ended: ended.endedAt !== undefined });
      const { sandboxName } = await call.core.sessions.get(call.caller, ended.sessionId);
      return {
        command_id: ended.id,
        exit_code: ended.exitCode ?? null,
        stdout: part.stdout,
        stderr: part.stderr,
        truncated: part.has_more,
        next_offset: part.next_offset,
        sandbox: sandboxName,
      };
    },
  }),
  vendorTool({
    name: "start_sandbox_command_job",
    title: "Start a command job in a session",
    description:
      "Start a command in a sandbox session and return at once; list_sandbox_background_commands shows its status.",
    input: z.strictObject(commandInput),
    output: z.looseObject(jobFields),
    hints: { ...destructive, openWorldHint: true },
    async run(args, call) {
      const command = await start(call, args);
      return { ...printCommand(command, await call.core.sessions.get(call.caller, args.id)) };
    },
  }),
  vendorTool({
    name: "list_sandbox_background_commands",
    title: "List commands of a session",
    description: "List the commands that were started in a sandbox session, running or not, oldest first.",
    input: z.strictObject({ id: sessionId }),
    output: z.strictObject({ commands: z.array(z.looseObject(jobFields)) }),
    hints: readOnly,
    async run({ id }, call) {
      const session = await call.core.sessions.get(call.caller, id);
      const commands = await call.core.commands.list(call.caller, id);
      return { commands: commands.map((command) => ({ ...printCommand(command, session) })) };
    },
  }),
];

/** whether it can be a session's id; the vendor's schema does not express this check */
function isCursor(value: string): boolean {
  return /^[\w-]{1,64}$/.test(value);
}

/** a tool with the JSON Schema version that this vendor uses */
function vendorTool<I extends z.ZodType, O extends z.ZodType>(spec: ToolSpec<I, O>): Tool {
  return tool({
    ...spec,
    vocabulary: "draft-7",
    // No tool of this family resumes a session, so there is nothing to advise.
    advice: {},
  });
}

async function brief(session: Session, call: Call) {
  const { uuid } = await call.core.access.project(call.caller, undefined, session.projectId);
  const printed = printSession(session, { publicUrl: call.publicUrl(), project: { uuid } });
  const { project_id: _, last_activity_at: __, ...rest } = printed;
  return rest;
}

function start(
  { core, caller }: Call,
  { id, command, cwd, env: variables, timeout_seconds: seconds }: z.output<z.ZodObject<typeof commandInput>>,
): Promise<Command> {
  return core.commands.run(caller, id, {
    ...commandLine(command),
    cwd,
    env: variables,
    timeLimit: seconds === undefined ? undefined : seconds * second,
  });
}
