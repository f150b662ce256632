/**
 * The output of a command on disk, as an agent writes it and the daemon reads it, perhaps after the agent has ended;
 * guest/agent/journal.h is the other side of the same format. In a machine's journal directory a command "c" has
 *
 *   c.info         frames (guest-frames.ts): first STARTED, once it has ended EXITED
 *   c.<offset>     a segment: records of output; its name ends in the offset of its first byte, 16 hex digits
 *
 *   STARTED (1)    u32 pid, u64 started at (ms since 1970), u32 flags (1 terminal), u64 bound, str user, str cwd, list argv
 *   EXITED (2)     u32 code, u32 signal, u32 flags (1 out of memory, 2 timed out), u64 cpu us, u64 peak bytes, u64 end,
 *                  u64 exited at (ms since 1970)
 *
 * A record:
 *
 *   offset  size  what
 *   0       1     u8  stream: 1 standard output, 2 standard error, 3 terminal
 *   1       4     u32 length, little-endian, at most 64 KiB
 *   5       n     the bytes
 *
 * Its version is that of the frames, which the agent sends in its HELLO. The files contain no version: a sandbox can
 * change them, and their content must not stop their reader.
 */

import { FrameParser, FrameReader, WireError } from "./guest-frames.ts";

export type OutputStream = "stdout" | "stderr" | "pty";

export interface ExitStatus {
  /** the exit code, or 128 + signal */
  code: number;
  signal?: number;
  outOfMemory: boolean;
  timedOut: boolean;
  /** processor time of the command and the descendants it waited for, in ms */
  cpuTime: number;
  peakMemory: number;
  /** offset of the end of its output when it exited */
  outputEnd: number;
  exitedAt: number;
}

/** The record of a command besides its output. */
export interface CommandInfo {
  pid: number;
  startedAt: number;
  pty: boolean;
  user: string;
  cwd: string;
  argv: string[];
  exit?: ExitStatus;
}

/** bytes of a record before its output */
export const recordHead = 5;
const largestRecord = 64 << 10;
const streams: Record<number, OutputStream> = { 1: "stdout", 2: "stderr", 3: "pty" };
const startedType = 1;
const exitedType = 2;

export function infoFile(command: string): string {
  return `${command}.info`;
}

export function segmentFile(command: string, start: number): string {
  return `${command}.${start.toString(16).padStart(16, "0")}`;
}

/** the first offset of a command's segment of this name; undefined for other files */
export function segmentStart(command: string, name: string): number | undefined {
  if (!name.startsWith(`${command}.`)) return undefined;
  const digits = name.slice(command.length + 1);
  return /^[0-9a-f]{16}$/.test(digits) ? Number.parseInt(digits, 16) : undefined;
}

/** the head of the record at an offset; undefined if it is incomplete or invalid */
export function recordAt(segment: Buffer, at: number): { stream: OutputStream; size: number } | undefined {
  const stream = streams[segment.readUInt8(at)];
  const size = segment.readUInt32LE(at + 1);
  return stream === undefined || size > largestRecord ? undefined : { stream, size };
}

/** undefined if the first frame is incomplete; without an exit if the second is */
export function readCommandInfo(written: Buffer): CommandInfo | undefined {
  let info: CommandInfo | undefined;
  try {
    for (const frame of new FrameParser().push(written)) {
      if (frame.type === startedType) info = parseStarted(new FrameReader(frame.payload));
      if (frame.type === exitedType && info) info.exit = parseExited(new FrameReader(frame.payload));
    }
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
  }
  return info;
}

/** the fields that an EXIT event and an EXITED note share */
export function parseExit(r: FrameReader): Omit<ExitStatus, "exitedAt"> {
  const code = r.u32();
  const signal = r.u32();
  const flags = r.u32();
  return {
    code,
    ...(signal > 0 && { signal }),
    outOfMemory: (flags & 1) !== 0,
    timedOut: (flags & 2) !== 0,
    cpuTime: r.u64() / 1000,
    peakMemory: r.u64(),
    outputEnd: r.u64(),
  };
}

function parseStarted(r: FrameReader): CommandInfo {
  const pid = r.u32();
  const startedAt = r.u64();
  const flags = r.u32();
  r.u64();
  return { pid, startedAt, pty: (flags & 1) !== 0, user: r.str(), cwd: r.str(), argv: r.list() };
}

function parseExited(r: FrameReader): ExitStatus {
  const status = parseExit(r);
  return { ...status, exitedAt: r.u64() };
}
