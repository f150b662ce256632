/** Turns a FAIL frame of a guest into the error that the core knows: which code, and the guest's own sentence. */

import { constants } from "node:os";
import { getSystemErrorMap } from "node:util";
import { type ErrorCode, SandkeepError, type Subject } from "../../../core/model/errors.ts";
import { FrameReader, What } from "../../../protocols/guest-frames.ts";

/** the error in a FAIL frame's payload; its cause is a KernelError */
export function failure(payload: Buffer): SandkeepError {
  try {
    const reader = new FrameReader(payload);
    const errno = reader.u32();
    const what = reader.u8();
    const sentence = reader.str().slice(0, longestSentence);
    reader.done();
    const kind = subjects.get(what);
    const about = kind && { about: { kind } };
    return new SandkeepError(codeOf(errno, what), sentence, { cause: new KernelError(errno), ...about });
  } catch (cause) {
    return new SandkeepError("internal", "Cannot tell what failed: the guest's answer is malformed", { cause });
  }
}

/** the same error, of the launcher, without the folders of the host that its sentence names: callers read it */
export function withoutFolders(error: unknown): unknown {
  if (!(error instanceof SandkeepError)) return error;
  const sentence = error.message.replaceAll(/"\/(?:[^"]*\/)?([^"/]*)"/g, '"$1"');
  // The launcher works in the store, so a full disk is the host's.
  const code = hostIsFull.has(errnoOf(error) ?? 0) ? "no-room" : error.code;
  return new SandkeepError(code, sentence, { cause: error.cause, ...(error.about && { about: error.about }) });
}

/**
 * an error of Node's own file calls as one of the core's, with what could not be done and without the folders of the host;
 * other errors are returned unchanged
 */
export function typed(error: unknown, what: string): unknown {
  if (!(error instanceof Error) || error instanceof SandkeepError) return error;
  const number = ofNode(error);
  if (number === undefined) return error;
  const [name, why] = getSystemErrorMap().get(-number) ?? unnamed(number);
  // While room is short, the store itself has a limit: see growth-stop.ts.
  const code = full.has(number) ? "no-room" : codeOf(number, What.system);
  return new SandkeepError(code, `${what}: ${name}: ${why}`, { cause: error });
}

/** the name and meaning of an error that Node does not know */
function unnamed(number: number): [string, string] {
  const why = number === numbers.EDQUOT ? "disk quota exceeded" : "unknown error";
  return [names.get(number) ?? `errno ${number}`, why];
}

/** the kernel's number behind an error, if it came out of a FAIL frame */
export function errnoOf(error: unknown): number | undefined {
  return error instanceof SandkeepError && error.cause instanceof KernelError ? error.cause.errno : undefined;
}

/** the cause of an error that the kernel gave a number, for an error that another thread described */
export function kernelError(errno: number): Error {
  return new KernelError(errno);
}

/** The state of the store when something in it has failed. */
export interface StoreState {
  isReadOnly(): boolean;
  /** a sentence about the shortage of room; undefined if there is enough */
  shortage(): string | undefined;
}

/**
 * the sentence for callers where the store has failed or has no room: what could not be done, why, and that it passes by
 * itself; other errors are returned unchanged. The kernel may report another error in that case, for example when a root is
 * mounted, so internal errors count too. `look` is only called for errors that may have this cause
 */
export function ofFailedStore(error: unknown, what: string, look: StoreState): unknown {
  const number = numberOf(error) ?? 0;
  const isOurs = error instanceof SandkeepError && error.code === "internal";
  if (!isOurs && !failedStore.has(number) && !full.has(number)) return error;
  const shortage = look.shortage();
  const refused = (code: ErrorCode, why: string) => new SandkeepError(code, `Cannot ${what}: ${why}`, { cause: error });
  if (full.has(number)) return shortage === undefined ? error : refused("no-room", shortage);
  const failed = "the store of all sandboxes is read-only, as a write to the disk below it failed";
  if (look.isReadOnly())
    return shortage === undefined
      ? refused("unavailable", `${failed}; it is mounted again by itself in a moment`)
      : refused("no-room", `${failed}; it is mounted again by itself once there is room: ${shortage}`);
  // The kernel refuses some calls before it makes the store read-only.
  if (!failedStore.has(number)) return error;
  if (shortage !== undefined) return refused("no-room", shortage);
  const isHosts = !(error instanceof SandkeepError && error.cause instanceof KernelError);
  return isHosts ? refused("unavailable", "the disk below the store of all sandboxes has failed") : error;
}

/** the same for a store that was unmounted meanwhile, where files seem to be missing; "gone" stays as it is */
export function ofClosedStore(error: unknown, shortage: string | undefined): unknown {
  const isOther = error instanceof SandkeepError && error.code !== "not-found" && error.code !== "internal";
  if (isOther && !failedStore.has(numberOf(error) ?? 0)) return error;
  const why = "their store became read-only and is being mounted again";
  if (shortage === undefined) return new SandkeepError("unavailable", `Cannot use sandboxes: ${why}`, { cause: error });
  return new SandkeepError("no-room", `Cannot use sandboxes: ${why}, which needs room: ${shortage}`, { cause: error });
}

/** whether a boot may succeed the next time: a launcher that died is started again, and first processes die on full disks */
export function isWorthAnotherBoot(error: unknown): boolean {
  return error instanceof SandkeepError && (error.code === "gone" || error.code === "internal");
}

/** the error of a second failed boot: "gone" would make no sense to callers, who never had the machine */
export function ofTwoBoots(error: unknown, shortage: string | undefined): unknown {
  if (!isWorthAnotherBoot(error)) return error;
  if (shortage !== undefined)
    return new SandkeepError("no-room", `Cannot start a sandbox: ${shortage}`, { cause: error });
  if (!(error instanceof SandkeepError) || error.code === "internal") return error;
  const why = `it died twice while it was started (${error.message})`;
  return new SandkeepError("unavailable", `Cannot start a sandbox: ${why}`, { cause: error });
}

/** wraps the object so that errors of its methods go through `explain` */
export function explaining<T extends object>(object: T, explain: (error: unknown) => unknown): T {
  const thrown = (error: unknown): never => {
    throw explain(error);
  };
  return new Proxy(object, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        try {
          const result: unknown = member.apply(target, args);
          return result instanceof Promise ? result.catch(thrown) : result;
        } catch (error) {
          return thrown(error);
        }
      };
    },
  });
}

/** the kernel's number behind an error of a guest or of Node's file calls, however often it was wrapped */
function numberOf(error: unknown): number | undefined {
  if (error instanceof KernelError) return error.errno;
  if (!(error instanceof Error)) return undefined;
  return ofNode(error) ?? numberOf(error.cause);
}

/** the kernel's number in an error of Node's own; some of its calls negate it and some do not */
function ofNode(error: Error): number | undefined {
  const { errno, code = "E" } = error as NodeJS.ErrnoException;
  // Errors of zlib have numbers of their own, and codes such as Z_BUF_ERROR. Node has no name for some of the kernel's.
  const isKernels = code.startsWith("E") || code.startsWith("Unknown system error");
  return errno === undefined || !isKernels ? undefined : Math.abs(errno);
}

/** what the kernel says of a write to a store that is read-only */
export function readOnlyError(): Error {
  return new KernelError(numbers.EROFS);
}

/** whether the kernel could not write something */
export function isOfDisk(error: unknown): boolean {
  const number = numberOf(error) ?? 0;
  return failedStore.has(number) || full.has(number);
}

/** whether there was no room in the store */
export function isFull(error: unknown): boolean {
  return numberOf(error) === constants.errno.ENOSPC;
}

class KernelError extends Error {
  override readonly name = "KernelError";
  readonly errno: number;

  constructor(errno: number) {
    super(names.get(errno) ?? `errno ${errno}`);
    this.errno = errno;
  }
}

// What a hostile guest may make us keep and show.
const longestSentence = 4096;

const { errno: numbers } = constants;
const names = new Map(Object.entries(numbers).map(([name, number]) => [number, name]));

const byErrno = new Map<number, ErrorCode>([
  [numbers.ENOENT, "not-found"],
  [numbers.EEXIST, "exists"],
  [numbers.EACCES, "forbidden"],
  [numbers.EPERM, "forbidden"],
  [numbers.ENOSPC, "limit"],
  [numbers.EDQUOT, "limit"],
  [numbers.EROFS, "forbidden"],
  [numbers.EFBIG, "limit"],
  [numbers.EMFILE, "limit"],
  [numbers.ENFILE, "limit"],
  [numbers.ENOMEM, "limit"],
  [numbers.EAGAIN, "limit"],
  [numbers.EOVERFLOW, "limit"],
  [numbers.ENOTDIR, "invalid"],
  [numbers.EISDIR, "invalid"],
  [numbers.EINVAL, "invalid"],
  [numbers.ENAMETOOLONG, "invalid"],
  [numbers.ELOOP, "invalid"],
  [numbers.EXDEV, "invalid"],
  [numbers.E2BIG, "invalid"],
  [numbers.ERANGE, "invalid"],
  [numbers.ENOTEMPTY, "conflict"],
  [numbers.EBUSY, "conflict"],
  [numbers.ETXTBSY, "conflict"],
  [numbers.ESTALE, "conflict"],
  [numbers.ESRCH, "gone"],
  [numbers.EPIPE, "gone"],
  [numbers.ENOTTY, "conflict"],
  [numbers.ECONNREFUSED, "conflict"],
  [numbers.ENOSYS, "unsupported"],
  [numbers.EOPNOTSUPP, "unsupported"],
]);

/** of what is done outside a sandbox: the store, or the disk below it, has no room, or had none and went read-only */
const hostIsFull = new Set([numbers.ENOSPC, numbers.EROFS]);

/** what programs inside read of it: while room is short, the limit of a volume is what it holds */
const full = new Set([numbers.ENOSPC, numbers.EDQUOT]);

/** what the kernel answers with when a file system has failed under it */
const failedStore = new Set([numbers.EIO, numbers.EROFS]);

/** what the caller has named wrongly, whatever the kernel says of it */
const subjects = new Map<number, Subject["kind"]>([
  [What.user, "user"],
  [What.cwd, "directory"],
  [What.executable, "executable"],
]);

function codeOf(errno: number, what: number): ErrorCode {
  const code = byErrno.get(errno) ?? "internal";
  // The caller is not to blame for what the kernel refuses us; only reached limits are passed on.
  if (what === What.system && hostIsFull.has(errno)) return "no-room";
  if (what === What.system) return code === "limit" || code === "unsupported" ? code : "internal";
  return subjects.has(what) ? "invalid" : code;
}
