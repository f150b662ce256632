/** Turns a FAIL frame of a guest into the error that the core knows: which code, and the guest's own sentence. */

import { constants } from "node:os";
import { type ErrorCode, SandkeepError, type Subject } from "../../../core/model/errors.ts";
import { FrameReader, What } from "../../../protocols/guest-frames.ts";

/** the error that a FAIL frame's payload tells about; its cause is a KernelError */
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
  // What the launcher does, it does in the store.
  const code = hostIsFull.has(errnoOf(error) ?? 0) ? "no-room" : error.code;
  return new SandkeepError(code, sentence, { cause: error.cause, ...(error.about && { about: error.about }) });
}

/**
 * an error of Node's own file calls as one of the core's, with what could not be done and without the folders of the host;
 * any other stays what it is
 */
export function typed(error: unknown, what: string): unknown {
  if (!(error instanceof Error) || error instanceof SandkeepError) return error;
  const { errno, syscall = "" } = error as NodeJS.ErrnoException;
  if (errno === undefined) return error;
  const [why] = error.message.split(`, ${syscall}`);
  return new SandkeepError(codeOf(-errno, What.system), `${what}: ${why}`, { cause: error });
}

/** the kernel's number behind an error, if it came out of a FAIL frame */
export function errnoOf(error: unknown): number | undefined {
  return error instanceof SandkeepError && error.cause instanceof KernelError ? error.cause.errno : undefined;
}

/**
 * an error that comes of a store that the kernel has made read-only, as callers read it: what could not be done, and until
 * when; any other stays what it is. The kernel may have another word for it, as when a root is mounted, so that what would be
 * our own fault counts too. `isReadOnly` is asked only where that may be
 */
export function ofReadOnlyStore(error: unknown, what: string, isReadOnly: () => boolean): unknown {
  const isOurs = error instanceof SandkeepError && error.code === "internal";
  if (!(isOurs || failedStore.has(numberOf(error) ?? 0)) || !isReadOnly()) return error;
  const why = "the store of all sandboxes is read-only until the host's disk has room";
  return new SandkeepError("no-room", `Cannot ${what}: ${why}`, { cause: error });
}

/** as above, of a store that was unmounted meanwhile, where files seem to be missing; of a machine it is said that it is gone */
export function ofClosedStore(error: unknown): unknown {
  if (error instanceof SandkeepError && error.code !== "not-found" && error.code !== "internal") return error;
  return new SandkeepError("unavailable", "Cannot use sandboxes: their store is being mounted", { cause: error });
}

/** the kernel's number behind an error of a guest or of Node's file calls, however often it was put into other words */
function numberOf(error: unknown): number | undefined {
  if (error instanceof KernelError) return error.errno;
  if (!(error instanceof Error)) return undefined;
  const { errno } = error as NodeJS.ErrnoException;
  return errno === undefined ? numberOf(error.cause) : -errno;
}

/** whether there was no room in the store */
export function isFull(error: unknown): boolean {
  return errnoOf(error) === constants.errno.ENOSPC || (error as NodeJS.ErrnoException)?.code === "ENOSPC";
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
  [numbers.EROFS, "limit"],
  [numbers.EFBIG, "limit"],
  [numbers.EMFILE, "limit"],
  [numbers.ENFILE, "limit"],
  [numbers.ENOMEM, "limit"],
  [numbers.EAGAIN, "limit"],
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
  // What the kernel refuses us is no fault of the caller; only a bound that is reached is his to know.
  if (what === What.system && hostIsFull.has(errno)) return "no-room";
  if (what === What.system) return code === "limit" || code === "unsupported" ? code : "internal";
  return subjects.has(what) ? "invalid" : code;
}
