/** Tools for sandboxes: create, get, list, stop, resume, extend, snapshot, fork, delete. */

import { z } from "zod";
import type { WantedBase } from "../../../core/images/images.ts";
import type { SessionState } from "../../../core/model/sandbox.ts";
import type { CreateSpec } from "../../../core/sandboxes/sandboxes.ts";
import { find, handle, ownerOf } from "../handle.ts";
import { note, printSandbox, printSnapshot, runtimeNote, sandboxFields, snapshotFields } from "../print.ts";
import { text } from "../schema.ts";
import { forkSettings, settings, settingsOf, tags, undoIfAborted } from "../settings.ts";
import { additive, type Call, destructive, idempotent, type McpLimits, readOnly, type Tool, tool } from "../tool.ts";

const second = 1000;
const day = 86_400 * second;

/** tells a caller that asked for progress how much of an image has arrived, at each percent */
function pullProgress({ progress }: Call): WantedBase["pulling"] {
  const inMb = (bytes: number) => Math.ceil(bytes / 1e6);
  let reached = -1;
  return ({ received, total }) => {
    const percent = Math.floor((received * 100) / total);
    if (percent <= reached) return;
    reached = percent;
    progress?.(received, `${inMb(received)} of ${inMb(total)} MB of the image`);
  };
}

/** all tools for sandboxes; their schemas contain the host's limits */
export function sandboxTools(limits: McpLimits): Tool[] {
  return [
    tool({
      name: "create_sandbox",
      title: "Create a sandbox",
      description:
        "Create an isolated Linux machine with its own files, processes and network, and sudo inside, and wait until " +
        "it runs. Use it to run code, install packages or start servers. Returns its name, which the other tools take " +
        "as sandbox, its working directory (cwd) and expires_at, when it stops by itself.",
      input: z.strictObject({ ...settings(limits), ...origin }).superRefine(requireOneOrigin),
      output: z.strictObject({ ...sandboxFields, note }),
      // A repository is cloned from the network.
      hints: { ...additive, openWorldHint: true },
      async run({ image, runtime, snapshot_id, git_url, git_ref, persistent, ...rest }, call) {
        const owner = await ownerOf(call);
        const made = await call.core.sandboxes.create(owner, {
          ...settingsOf(rest),
          base: { image, runtime, pulling: pullProgress(call) },
          persistent,
          source: sourceOf({ snapshot_id, git_url, git_ref }),
        });
        await undoIfAborted(call, made.sandbox);
        const other = runtimeNote(runtime, made.sandbox.base);
        return { ...printSandbox(made, call), ...(other !== undefined && { note: other }) };
      },
    }),
    tool({
      name: "fork_sandbox",
      title: "Fork a sandbox",
      description:
        "Copy a sandbox: a new one with the same files as they are now, and the same settings but for those you pass. " +
        "Use it to try something risky, or several things at once. Processes are not copied, and the original keeps " +
        "running. Returns the new sandbox.",
      input: z.strictObject({ ...handle, ...forkSettings(limits) }),
      output: z.strictObject(sandboxFields),
      hints: additive,
      async run({ sandbox, ...rest }, call) {
        const owner = await ownerOf(call);
        const made = await call.core.sandboxes.branch(owner, sandbox, settingsOf(rest));
        await undoIfAborted(call, made.sandbox);
        return printSandbox(made, call);
      },
    }),
    tool({
      name: "extend_sandbox",
      title: "Extend a sandbox's time",
      description:
        "Postpone the moment at which a running sandbox stops by itself. Use it before work that outlasts expires_at. " +
        "Returns the sandbox with its new expires_at.",
      input: z.strictObject({
        ...handle,
        seconds: z
          .int()
          .min(1)
          .max(Math.floor(limits.timeout / second))
          .describe("How much longer it runs."),
      }),
      output: z.strictObject(sandboxFields),
      hints: additive,
      async run({ seconds, ...args }, call) {
        const { sandbox, session } = await find(call, args);
        const extended = await call.core.sessions.extend(call.caller, session.id, seconds * second);
        return printSandbox({ sandbox, session: extended }, call);
      },
    }),
    ...unbounded,
  ];
}

/** what a new sandbox starts from */
const origin = {
  image: text(255).regex(/^\S+$/).optional().describe("Image to boot from. Default: the host's default image."),
  runtime: text(64)
    .min(1)
    .optional()
    .describe("node24, node22, node26 or python3.13. If no image has it, the default image runs, and note says so."),
  snapshot_id: text(128).min(1).optional().describe("Snapshot to start from, as snapshot_sandbox returned it."),
  git_url: text(4096)
    .regex(/^https?:\/\/\S+$/)
    .optional()
    .describe("Git repository to clone into the working directory: an http or https URL."),
  git_ref: text(255)
    .regex(/^[^\s-]\S*$/)
    .optional()
    .describe("Branch, tag or commit of git_url. Default: its default branch."),
  persistent: z.boolean().default(true).describe("Whether its files survive a stop."),
};

type CreateSource = Partial<Record<"image" | "runtime" | "snapshot_id" | "git_url" | "git_ref", string | undefined>>;

function requireOneOrigin(
  { image, runtime, snapshot_id, git_url, git_ref }: CreateSource,
  { addIssue }: { addIssue(message: string): void },
): void {
  const others = { image, runtime, git_url };
  const beside = Object.entries(others).find(([, value]) => value !== undefined)?.[0];
  if (snapshot_id !== undefined && beside) {
    addIssue(`\`snapshot_id\` should NOT be given together with \`${beside}\`.`);
  }
  if (git_ref !== undefined && git_url === undefined) addIssue("`git_ref` should NOT be given without `git_url`.");
}

function sourceOf({ snapshot_id, git_url, git_ref }: CreateSource): CreateSpec["source"] {
  if (snapshot_id !== undefined) return { kind: "snapshot", snapshotId: snapshot_id };
  return git_url === undefined ? undefined : { kind: "git", url: git_url, revision: git_ref };
}

const states: Record<"running" | "stopped", SessionState[]> = {
  running: ["pending", "running"],
  stopped: ["paused", "snapshotting", "stopping", "stopped", "failed", "aborted"],
};

const unbounded: Tool[] = [
  tool({
    name: "get_sandbox",
    title: "Get a sandbox",
    description:
      "Show one sandbox: status, working directory, size, network policy, URLs of its ports and expires_at. Use it to " +
      "check that it runs and for how long.",
    input: z.strictObject(handle),
    output: z.strictObject(sandboxFields),
    hints: readOnly,
    run: async (args, call) => printSandbox(await find(call, args), call),
  }),
  tool({
    name: "list_sandboxes",
    title: "List sandboxes",
    description:
      "List the sandboxes of your project, newest first, stopped ones too. Use it to find one again. Returns a page and " +
      "next_cursor, which is null on the last page.",
    input: z.strictObject({
      status: z.enum(["running", "stopped"]).optional().describe("Only these."),
      tags: tags.optional().describe("Only those with all of these labels."),
      limit: z.int().min(1).max(100).default(20).describe("Most sandboxes to return."),
      cursor: text(4096).min(1).optional().describe("next_cursor of the previous page."),
    }),
    output: z.strictObject({
      sandboxes: z.array(
        z.strictObject({ sandbox: z.string(), status: z.string(), session_id: z.string(), created_at: z.string() }),
      ),
      next_cursor: z.union([z.string(), z.null()]),
    }),
    hints: readOnly,
    async run({ status, tags: pairs, limit, cursor }, call) {
      const owner = await ownerOf(call);
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
      "Stop a sandbox and end its processes. Use it when you are done for now. The files of a persistent sandbox are " +
      "kept, and resume_sandbox brings them back; those of any other are lost. Stopping it twice changes nothing. " +
      "Returns the sandbox, with the snapshot_id that holds its files.",
    input: z.strictObject(handle),
    output: z.strictObject(sandboxFields),
    hints: { ...destructive, idempotentHint: true },
    async run(args, call) {
      const { session } = await find(call, args);
      return printSandbox(await call.core.sessions.stop(call.caller, session.id), call);
    },
  }),
  tool({
    name: "resume_sandbox",
    title: "Resume a sandbox",
    description:
      "Start a stopped sandbox again with the files of its last snapshot; its processes are gone. Use it when a tool " +
      "says that the sandbox has stopped. Returns the sandbox; one that runs is left as it is.",
    input: z.strictObject(handle),
    output: z.strictObject(sandboxFields),
    hints: idempotent,
    async run(args, call) {
      const owner = await ownerOf(call);
      return printSandbox(await call.core.sandboxes.resume(owner, args.sandbox), call);
    },
  }),
  tool({
    name: "snapshot_sandbox",
    title: "Take a snapshot",
    description:
      "Save the files of a running sandbox as they are now; it keeps running. Use it before changes that you may want " +
      "to undo. Returns a snapshot_id, from which create_sandbox starts new sandboxes.",
    input: z.strictObject({
      ...handle,
      expiration_days: z
        .int()
        .min(0)
        .max(36_500)
        .optional()
        .describe("Days to keep it after its last use; 0 for ever. Default: the host's setting."),
    }),
    output: z.strictObject(snapshotFields),
    hints: additive,
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
    description:
      "Delete a sandbox and its files for good, running or not. Use it when you will not need it again. Its snapshots " +
      "stay unless delete_snapshots is true. Returns its name, and deleted: true.",
    input: z.strictObject({
      ...handle,
      delete_snapshots: z.boolean().default(false).describe("Delete its snapshots too, except those that others use."),
    }),
    output: z.strictObject({ sandbox: z.string(), deleted: z.boolean() }),
    hints: destructive,
    async run({ sandbox, delete_snapshots: orphanSnapshots }, call) {
      const owner = await ownerOf(call);
      await call.core.sandboxes.delete(owner, sandbox, { orphanSnapshots });
      return { sandbox, deleted: true };
    },
  }),
];
