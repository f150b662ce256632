/**
 * The JSON messages of envd's two services: schemas of what clients send, and printers for the parts of answers. As in
 * protobuf's JSON, a member with its default value may be missing or null, bytes are base64, numbers may be strings,
 * and unknown members are ignored.
 */

import { z } from "zod";
import type { UserFile } from "../../../core/files/user-files.ts";
import type { FileType } from "../../../core/ports/runtime.ts";
import { metadataIn } from "./file-metadata.ts";

const longestPath = 4096;

/** an optional member; null counts as absent */
function absent<S extends z.ZodType>(schema: S) {
  return z.preprocess((value) => value ?? undefined, schema.optional());
}

/** a number, or a string of digits */
const uint32 = z.preprocess(
  (value) => (typeof value === "string" && /^\d{1,10}$/.test(value) ? Number(value) : value),
  z.int().min(0).max(0xffff_ffff),
);

const bytes = z.string().transform((text, context) => {
  if (/^[\w+/-]*={0,2}$/.test(text) && text.replace(/=+$/, "").length % 4 !== 1) return Buffer.from(text, "base64");
  context.addIssue({ code: "custom", message: "bytes should be base64." });
  return z.NEVER;
});

const text = z.preprocess((value) => value ?? "", z.string());
const path = z.preprocess((value) => value ?? "", z.string().max(longestPath));
const flag = z.preprocess((value) => value ?? false, z.boolean());

const selector = z
  .object({ pid: absent(uint32), tag: absent(z.string().max(1024)) })
  .refine(({ pid, tag }) => (pid === undefined) !== (tag === undefined), {
    message: "`process` should have either a pid or a tag.",
  });
export type Selector = z.output<typeof selector>;

const side = z.preprocess((value) => value ?? 0, uint32.pipe(z.int().min(1).max(65_535)));
const pty = z.object({ size: absent(z.object({ cols: side, rows: side })) });

const input = z.object({ stdin: absent(bytes), pty: absent(bytes) });

const signals = { SIGNAL_SIGTERM: 15, SIGNAL_SIGKILL: 9 } as const;
const signal = z.preprocess(
  (value) =>
    typeof value === "string" && Object.hasOwn(signals, value) ? signals[value as keyof typeof signals] : value,
  z.union([z.literal(15), z.literal(9)]),
);

const watch = z.object({ path, recursive: flag, includeEntry: flag, allowNetworkMounts: flag });
const watcher = z.object({ watcherId: text });

export const messages = {
  empty: z.object({}),
  start: z.object({
    process: z.object({
      cmd: z.string().min(1).max(longestPath),
      args: z.preprocess((value) => value ?? [], z.array(z.string())),
      envs: z.preprocess(
        (value) => value ?? {},
        z.record(
          z
            .string()
            .min(1)
            .regex(/^[^=\0]+$/),
          z.string(),
        ),
      ),
      cwd: absent(z.string().max(longestPath)),
    }),
    pty: absent(pty),
    tag: absent(z.string().max(1024)),
    stdin: absent(z.boolean()),
  }),
  process: z.object({ process: selector }),
  update: z.object({ process: selector, pty: absent(pty) }),
  sendInput: z.object({ process: selector, input: absent(input) }),
  streamInput: z.object({
    start: absent(z.object({ process: selector })),
    data: absent(z.object({ input: absent(input) })),
    keepalive: absent(z.object({})),
  }),
  sendSignal: z.object({ process: selector, signal }),
  path: z.object({ path }),
  listDir: z.object({ path, depth: z.preprocess((value) => value ?? 0, uint32) }),
  move: z.object({ source: path, destination: path }),
  watch,
  watcher,
};

export type Input = z.output<typeof input>;
export type StartMessage = z.output<(typeof messages)["start"]>;
export type WatchMessage = z.output<typeof watch>;

/** the process service's event for a command's end */
export function endEvent({ code, signal: by }: { code: number; signal?: number | undefined }): object {
  const status = by === undefined ? `exit status ${code}` : `signal: ${signalWords[by] ?? `signal ${by}`}`;
  const isFine = by === undefined && code === 0;
  return {
    exitCode: by === undefined ? code : -1,
    exited: by === undefined,
    status,
    ...(!isFine && { error: status }),
  };
}

/** names of signals in the language of the hosted service */
const signalWords: Record<number, string> = {
  1: "hangup",
  2: "interrupt",
  3: "quit",
  4: "illegal instruction",
  5: "trace/breakpoint trap",
  6: "aborted",
  7: "bus error",
  8: "floating point exception",
  9: "killed",
  10: "user defined signal 1",
  11: "segmentation fault",
  12: "user defined signal 2",
  13: "broken pipe",
  14: "alarm clock",
  15: "terminated",
};

const fileTypes: Partial<Record<FileType, string>> = {
  file: "FILE_TYPE_FILE",
  directory: "FILE_TYPE_DIRECTORY",
  symlink: "FILE_TYPE_SYMLINK",
};

export function entryInfo(file: UserFile): object {
  const type = file.type === "symlink" ? file.targetType : file.type;
  return {
    name: file.name,
    type: (type && fileTypes[type]) ?? "FILE_TYPE_UNSPECIFIED",
    path: file.path,
    size: String(file.size),
    mode: file.mode & 0o777,
    permissions: permissions(file),
    owner: file.owner,
    group: file.group,
    modifiedTime: new Date(file.modifiedAt).toISOString(),
    ...metadataIn(file.attributes),
    ...(file.pointsTo !== undefined && { symlinkTarget: file.pointsTo }),
  };
}

const typeLetters: Partial<Record<FileType, string>> = {
  directory: "d",
  symlink: "L",
  device: "D",
  fifo: "p",
  socket: "S",
};

/** "-rw-r--r--", with letters for the type and the special bits */
function permissions({ type, mode }: UserFile): string {
  const special = `${mode & 0o4000 ? "u" : ""}${mode & 0o2000 ? "g" : ""}${mode & 0o1000 ? "t" : ""}`;
  const bits = [...Array(9).keys()].map((at) => (mode & (0o400 >> at) ? "rwx"[at % 3] : "-")).join("");
  return `${`${typeLetters[type] ?? ""}${special}` || "-"}${bits}`;
}
