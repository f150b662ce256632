/** envd's filesystem service: metadata, directories, moves and watches. transfers.ts serves the content of files. */

import type { UserFile } from "../../../core/files/user-files.ts";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { FileChange } from "../../../core/ports/runtime.ts";
import type { Service } from "../../kit/dialect.ts";
import { deadlineExceeded, deadlineOf, type EnvdCall, keepaliveOf } from "./call.ts";
import { ConnectError, serverStream, unary } from "./connect.ts";
import { metadataPrefix } from "./file-metadata.ts";
import { entryInfo, messages, type WatchMessage } from "./messages.ts";
import type { Method } from "./processes.ts";
import { Watchers } from "./watchers.ts";

/** what a directory is listed to: levels, and entries of all of them */
const deepest = 32;
const mostEntries = 10_000;

export function filesystemMethods(service: Service): Record<string, Method> {
  const { core, logError, ending } = service;
  const watchers = new Watchers(service);
  const report = { logError };
  const { userFiles } = core;

  return {
    Stat: (call) =>
      unary(call.request, messages.path, report, async ({ path }) => ({
        entry: entryInfo(await userFiles.stat(...about(call), { path, user: call.user })),
      })),
    ListDir: (call) =>
      unary(call.request, messages.listDir, report, async ({ path, depth }) => {
        if (depth > deepest) {
          throw new ConnectError("invalid_argument", `Cannot list so many levels: the depth is at most ${deepest}`);
        }
        const bounds = { depth: Math.max(depth, 1), most: mostEntries, attributes: metadataPrefix };
        const entries = await userFiles.list(...about(call), { path, user: call.user }, bounds).catch((error) => {
          // Clients take "resource_exhausted" for a rate limit, and try again.
          if (!isSandkeepError(error, "limit")) throw error;
          throw new ConnectError("failed_precondition", error.message, { cause: error });
        });
        return { entries: entries.map(entryInfo) };
      }),
    MakeDir: (call) =>
      unary(call.request, messages.path, report, async ({ path }) => ({
        entry: entryInfo(await userFiles.makeDirectory(...about(call), { path, user: call.user })),
      })),
    Move: (call) =>
      unary(call.request, messages.move, report, async ({ source, destination }) => ({
        entry: entryInfo(await userFiles.move(...about(call), { path: source, user: call.user }, destination)),
      })),
    Remove: (call) =>
      unary(call.request, messages.path, report, async ({ path }) => {
        await userFiles.remove(...about(call), { path, user: call.user });
        return {};
      }),
    WatchDir: (call) =>
      serverStream(call.request, {
        schema: messages.watch,
        keepalive: keepaliveOf(call.request, { keepalive: {} }),
        ending,
        logError,
        messages: (message, signal) => watched(call, message, signal),
      }),
    CreateWatcher: (call) =>
      unary(call.request, messages.watch, report, async (message) => {
        const watcherId = await watchers.create(call.session.id, (signal) => changes(call, message, signal));
        return { watcherId };
      }),
    GetWatcherEvents: (call) =>
      unary(call.request, messages.watcher, report, async ({ watcherId }) => ({
        events: await watchers.events(call.session.id, watcherId),
      })),
    RemoveWatcher: (call) =>
      unary(call.request, messages.watcher, report, async ({ watcherId }) => {
        watchers.remove(call.session.id, watcherId);
        return {};
      }),
  };

  async function* watched(call: EnvdCall, message: WatchMessage, gone: AbortSignal): AsyncGenerator<object> {
    const { signal, isOver } = deadlineOf(call.request, gone);
    const events = await changes(call, message, signal);
    yield { start: {} };
    for await (const filesystem of events) yield { filesystem };
    if (isOver()) throw deadlineExceeded();
  }

  /** the changes after the promise is fulfilled, as events of this wire */
  async function changes(call: EnvdCall, message: WatchMessage, signal: AbortSignal): Promise<AsyncIterable<object>> {
    const { path, recursive, includeEntry } = message;
    const watch = await userFiles.watch(...about(call), { path, user: call.user }, { recursive, signal });
    return eventsOf(watch, includeEntry);
  }
}

function about({ owner, session }: EnvdCall): [EnvdCall["owner"], string] {
  return [owner, session.id];
}

interface Watch {
  changes: AsyncIterable<FileChange>;
  root: string;
  stat: (path: string) => Promise<UserFile>;
}

type EventName = "CREATE" | "WRITE" | "REMOVE" | "RENAME" | "CHMOD";

/** a move becomes two events: RENAME of the old name and CREATE of the new one */
const eventNames: Record<FileChange["kind"], EventName> = {
  created: "CREATE",
  written: "WRITE",
  removed: "REMOVE",
  moved: "RENAME",
  metadata: "CHMOD",
};

async function* eventsOf({ changes, root, stat }: Watch, includeEntry: boolean): AsyncGenerator<object> {
  for await (const { kind, path, to } of changes) {
    yield* event(eventNames[kind], path);
    if (to !== undefined) yield* event("CREATE", to);
  }

  async function* event(type: EventName, path: string): AsyncGenerator<object> {
    const name = nameBelow(root, path);
    if (name === undefined) return;
    const isThere = includeEntry && type !== "REMOVE" && type !== "RENAME";
    // The file or its directory may be gone by now.
    const entry = isThere ? await stat(path).catch(() => undefined) : undefined;
    yield { name, type: `EVENT_TYPE_${type}`, ...(entry && { entry: entryInfo(entry) }) };
  }
}

/** the path relative to the root; undefined for the root itself */
function nameBelow(root: string, path: string): string | undefined {
  const prefix = root === "/" ? "/" : `${root}/`;
  return path.startsWith(prefix) && path.length > prefix.length ? path.slice(prefix.length) : undefined;
}
