/** Runs the guest's file code without a sandbox around it: built with sanitizers, a process per connection. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { isSandkeepError } from "../../../src/core/model/errors.ts";
import { FileSession } from "../../../src/runtime/linux/files/file-session.ts";
import { demand } from "../../runner/needs.ts";
import { compileGuest, fileSources, sanitizers } from "./guest-program.ts";

export interface FileGuest {
  /** the binary, for its other uses (see guest/test/files_serve.c) */
  program: string;
  connect(): Promise<FileSession>;
  /** a connection for raw messages of the test */
  raw(): Promise<ReturnType<typeof connect>>;
  /** ends it; fails if a sanitizer or a worker reported anything */
  stop(): Promise<void>;
}

export interface FileGuestOptions {
  /** the directory that serves as its root */
  root?: string;
  user?: { uid: number; gid: number };
  privileged?: boolean;
}

/** builds the guest's file code for the tests of a file, and starts one whose root is the host's */
export function useFileGuest(): FileGuest {
  let guest: FileGuest | undefined;
  let remove = async () => {};
  beforeAll(async () => {
    const built = await buildFileGuest();
    remove = built.remove;
    guest = await startFileGuest(built.program);
  });
  afterAll(async () => {
    await guest?.stop();
    await remove();
  });
  const started = () => guest ?? unstarted();
  return {
    get program() {
      return started().program;
    },
    connect: () => started().connect(),
    raw: () => started().raw(),
    stop: () => started().stop(),
  };
}

/** "code: message" of the SandkeepError that a promise is rejected with; anything else is an error of the test */
export async function refusal(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => new Error("Nothing was refused"),
    (reason) => reason,
  );
  if (!isSandkeepError(error)) throw error;
  return `${error.code}: ${error.message}`;
}

/** all values of a source */
export async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const values: T[] = [];
  for await (const value of source) values.push(value);
  return values;
}

function unstarted(): never {
  throw new Error("Cannot use the file guest before the tests run");
}

/** the program, built with AddressSanitizer and UndefinedBehaviorSanitizer; `remove` deletes it */
async function buildFileGuest(): Promise<{ program: string; remove(): Promise<void> }> {
  demand("the command cc");
  const directory = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  const program = join(directory, "files_serve");
  await compileGuest(program, [...fileSources, "test/files_serve"], sanitizers);
  return { program, remove: () => rm(directory, { recursive: true, force: true }) };
}

export async function startFileGuest(program: string, options: FileGuestOptions = {}): Promise<FileGuest> {
  const directory = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  const socket = join(directory, "socket");
  const args = ["serve", socket];
  if (options.root) args.push("chroot", options.root);
  if (options.user) args.push("user", String(options.user.uid), String(options.user.gid));
  if (options.privileged) args.push("privileged");
  // The leak checker needs /proc, which another root lacks.
  const env = options.root ? { ASAN_OPTIONS: "detect_leaks=0" } : {};
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  let complaints = "";
  child.stderr.on("data", (data) => {
    complaints += data;
  });
  const exited = once(child, "exit");
  await Promise.race([once(child.stdout, "data"), exited.then(() => Promise.reject(new Error(complaints)))]);

  async function raw() {
    const connection = connect(socket);
    await once(connection, "connect");
    return connection;
  }
  return {
    program,
    raw,
    connect: async () => new FileSession(await raw()),
    async stop() {
      child.kill();
      await exited;
      await rm(directory, { recursive: true, force: true });
      if (complaints !== "") throw new Error(`The guest's file code complained:\n${complaints}`);
    },
  };
}
