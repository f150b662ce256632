/** Tools for sandboxes: create, get, list, stop, resume, extend, snapshot, fork, delete. */

import { z } from "zod";
import type { SessionState } from "../../../core/sandbox.ts";
import { find, handle, ownerOf, projectId } from "../handle.ts";
import { printSandbox, printSnapshot, sandboxFields, snapshotFields } from "../print.ts";
import { text } from "../schema.ts";
import { settings, settingsOf, tags, undoneIfUnwanted } from "../settings.ts";
import { adds, destroys, type McpLimits, reads, settles, type Tool, tool } from "../tool.ts";

const second = 1000;
const day = 86_400 * second;

/** what is bounded by the host's limits says so in its schema */
export function sandboxTools(limits: McpLimits): Tool[] {
  const common = settings(limits);
  return [
    tool({
      name: "create_sandbox",
      title: "Create a sandbox",
      description:
        "Creates an isolated Linux sandbox with its own files, processes and network, and returns when it runs. Use " +
        "its name with the other tools. It boots from the default image, an image or runtime by name, or a snapshot. " +
        "A persistent one keeps its files when it stops and can be resumed.",
      input: z
        .strictObject({
          ...common,
          project_id: projectId,
          image: text(255).regex(/^\S+$/).optional().describe("Image to boot from, such as one you imported."),
          runtime: text(64).min(1).optional().describe("Runtime of the default image, such as node24 or python3.13."),
          snapshot_id: text(128)
            .min(1)
            .optional()
            .describe("Snapshot to boot from: snap_…; excludes image and runtime."),
          persistent: z.boolean().optional().describe("Whether its files are kept when it stops. Default true."),
        })
        .refine(({ snapshot_id: snapshot, image, runtime }) => [snapshot, image ?? runtime].includes(undefined), {
          error: "`snapshot_id` should NOT be given together with `image` or `runtime`.",
        }),
      output: z.strictObject(sandboxFields),
      hints: adds,
      async run({ project_id, image, runtime, snapshot_id, persistent, ...rest }, call) {
        const owner = await ownerOf(call, { project_id });
        const made = await call.core.sandboxes.create(owner, {
          ...settingsOf(rest),
          base: { image, runtime },
          persistent,
          ...(snapshot_id !== undefined && { source: { kind: "snapshot", snapshotId: snapshot_id } }),
        });
        await undoneIfUnwanted(call, made.sandbox);
        return printSandbox(made, call);
      },
    }),
    tool({
      name: "fork_sandbox",
      title: "Fork a sandbox",
      description:
        "Makes a new sandbox with a copy of another's files as they are now, and the same settings but for those you " +
        "give. Processes are not copied; the other goes on undisturbed.",
      input: z.strictObject({ ...handle, ...common }),
      output: z.strictObject(sandboxFields),
      hints: adds,
      async run({ sandbox, project_id, ...rest }, call) {
        const owner = await ownerOf(call, { project_id });
        const made = await call.core.sandboxes.branch(owner, sandbox, settingsOf(rest));
        await undoneIfUnwanted(call, made.sandbox);
        return printSandbox(made, call);
      },
    }),
    tool({
      name: "extend_sandbox",
      title: "Extend a sandbox's time",
      description: "Lets a running sandbox run longer: its end moves by this many seconds.",
      input: z.strictObject({
        ...handle,
        seconds: z
          .int()
          .min(1)
          .max(Math.floor(limits.timeout / second))
          .describe("How much longer."),
      }),
      output: z.strictObject(sandboxFields),
      hints: adds,
      async run({ seconds, ...args }, call) {
        const { sandbox, session } = await find(call, args);
        const extended = await call.core.sessions.extend(call.caller, session.id, seconds * second);
        return printSandbox({ sandbox, session: extended }, call);
      },
    }),
    ...unbounded,
  ];
}

const states: Record<"running" | "stopped", SessionState[]> = {
  running: ["pending", "running"],
  stopped: ["snapshotting", "stopping", "stopped", "failed", "aborted"],
};

const unbounded: Tool[] = [
  tool({
    name: "get_sandbox",
    title: "Get a sandbox",
    description: "Tells a sandbox's state, its session, until when it runs, and the addresses of its ports.",
    input: z.strictObject(handle),
    output: z.strictObject(sandboxFields),
    hints: reads,
    run: async (args, call) => printSandbox(await find(call, args), call),
  }),
  tool({
    name: "list_sandboxes",
    title: "List sandboxes",
    description: "Lists a project's sandboxes, newest first, running or not. To go on, pass next_cursor as cursor.",
    input: z.strictObject({
      project_id: projectId,
      status: z.enum(["running", "stopped"]).optional().describe("Only those that run, or only those that do not."),
      tags: tags.optional().describe("Only those that have all of these pairs."),
      limit: z.int().min(1).max(100).default(20).describe("Most sandboxes in this answer. Default 20."),
      cursor: text(4096).min(1).optional().describe("next_cursor of the page before."),
    }),
    output: z.strictObject({
      sandboxes: z.array(
        z.strictObject({ sandbox: z.string(), status: z.string(), session_id: z.string(), created_at: z.string() }),
      ),
      next_cursor: z.union([z.string(), z.null()]),
    }),
    hints: reads,
    async run({ status, tags: pairs, limit, cursor, ...args }, call) {
      const owner = await ownerOf(call, args);
      const page = await call.core.sandboxes.list(owner, {
        limit,
        order: "desc",
        sortBy: "createdAt",
        ...(cursor !== undefined && { cursor }),
        ...(pairs !== undefined && { tags: pairs }),
        ...(status && { states: states[status] }),
      });
      const sandboxes = page.items.map((it) => ({
        sandbox: it.name,
        status: it.state,
        session_id: it.currentSessionId,
        created_at: new Date(it.createdAt).toISOString(),
      }));
      return { sandboxes, next_cursor: page.next ?? null };
    },
  }),
  tool({
    name: "stop_sandbox",
    title: "Stop a sandbox",
    description:
      "Stops a sandbox and all its processes. Files of a persistent one are kept in a snapshot, from which " +
      "resume_sandbox starts it again. Stopping one that has stopped changes nothing.",
    input: z.strictObject(handle),
    output: z.strictObject(sandboxFields),
    hints: { ...destroys, idempotentHint: true },
    async run(args, call) {
      const { session } = await find(call, args);
      return printSandbox(await call.core.sessions.stop(call.caller, session.id), call);
    },
  }),
  tool({
    name: "resume_sandbox",
    title: "Resume a sandbox",
    description:
      "Starts a stopped sandbox again from its last snapshot, with its files but without its processes. One that " +
      "runs is returned as it is.",
    input: z.strictObject(handle),
    output: z.strictObject(sandboxFields),
    hints: settles,
    async run(args, call) {
      const owner = await ownerOf(call, args);
      return printSandbox(await call.core.sandboxes.resume(owner, args.sandbox), call);
    },
  }),
  tool({
    name: "snapshot_sandbox",
    title: "Take a snapshot",
    description:
      "Keeps a running sandbox's files as they are now; the sandbox goes on. create_sandbox with the snapshot_id " +
      "starts others from it, and resume_sandbox uses the latest one.",
    input: z.strictObject({
      ...handle,
      expiration_days: z
        .int()
        .min(0)
        .max(36_500)
        .optional()
        .describe("Days it is kept after its last use; 0 for ever. Default: what the sandbox or the host says."),
    }),
    output: z.strictObject(snapshotFields),
    hints: adds,
    async run({ expiration_days: days, ...args }, call) {
      const { session } = await find(call, args);
      const expiration = days === undefined ? undefined : days * day;
      const { snapshot } = await call.core.sessions.checkpoint(call.caller, session.id, { expiration });
      return printSnapshot(snapshot);
    },
  }),
  tool({
    name: "delete_sandbox",
    title: "Delete a sandbox",
    description: "Deletes a sandbox for good, running or not. Its snapshots stay unless they are to go with it.",
    input: z.strictObject({
      ...handle,
      delete_snapshots: z.boolean().default(false).describe("Delete its snapshots too, but for those that others use."),
    }),
    output: z.strictObject({ sandbox: z.string(), deleted: z.boolean() }),
    hints: destroys,
    async run({ sandbox, delete_snapshots: orphanSnapshots, ...args }, call) {
      const owner = await ownerOf(call, args);
      await call.core.sandboxes.delete(owner, sandbox, { orphanSnapshots });
      return { sandbox, deleted: true };
    },
  }),
];
