/** Replaces the launcher in the tests of layers and images: the guest's real file and flatten code, in processes. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { SandkeepError } from "../../../src/core/model/errors.ts";
import { FrameParser, FrameReader, FrameWriter, Type } from "../../../src/protocols/guest-frames.ts";
import { FileSession } from "../../../src/runtime/linux/files/file-session.ts";
import { ImageStore } from "../../../src/runtime/linux/images/images.ts";
import { LayerStore, type LayerTools } from "../../../src/runtime/linux/layers/layers.ts";
import { SnapshotStore } from "../../../src/runtime/linux/layers/snapshots.ts";
import { compileGuest, fileSources, sanitizers } from "../guest/guest-program.ts";
import { tempDir } from "../harness.ts";

const run = promisify(execFile);

/** A store in its own directory, with all classes that work on it. */
export interface TestStore {
  path: string;
  layers: LayerStore;
  images: ImageStore;
  snapshots: SnapshotStore;
  /** layers and image references that machines would need */
  needs: { layers: string[]; images: string[] };
  /** opens the same directory again, as another process would */
  reopen(): Promise<TestStore>;
}

export interface LayerToolsHandle {
  tools: LayerTools;
  /** guest/test/flatten_main.c, for reading and making layers */
  flattenMain(...args: string[]): Promise<string>;
  /** `volumes`: simulates subvolumes by copying file by file */
  store(options?: { volumes?: boolean }): Promise<TestStore>;
  /** a store whose large layers are unpacked by threads, as with a launcher */
  threadedStore(): Promise<TestStore & { sessions(): number }>;
}

/** builds the tools for the tests of a file */
export function useLayerTools(): LayerToolsHandle {
  let programs = "";
  beforeAll(async () => {
    programs = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
    await Promise.all([
      compileGuest(join(programs, "files_serve"), [...fileSources, "test/files_serve"], sanitizers),
      compileGuest(join(programs, "flatten_main"), flattenSources, sanitizers),
    ]);
  });
  afterAll(() => rm(programs, { recursive: true, force: true }));

  const flattenMain = async (...args: string[]) => {
    const { stdout } = await run(join(programs, "flatten_main"), args, { maxBuffer: 64 << 20 });
    return stdout;
  };
  const unsupported = () => Promise.reject(new SandkeepError("unsupported", "Cannot make a volume: this is a test"));
  const tools: LayerTools = {
    createVolume: unsupported,
    deleteVolume: unsupported,
    snapshotVolume: async (from, to) => void (await run("cp", ["-a", "--reflink=auto", from, to])),
    sync: async (path) => void (await run("sync", ["-f", path])),
    filesAt: (directory) => serve(join(programs, "files_serve"), directory),
    flatten: async (layers, into) => void (await flattenMain("flatten", into, ...layers)),
  };
  return {
    tools,
    flattenMain,
    store: async (options) => openStore(join(await tempDir(), "store"), tools, options),
    async threadedStore() {
      const folder = await tempDir();
      const filesSocket = join(folder, "socket");
      let count = 0;
      const server = createServer((connection) => {
        count++;
        void relay(connection, join(programs, "files_serve"));
      }).listen(filesSocket);
      await once(server, "listening");
      onTestFinished(() => void server.close());
      const store = await openStore(join(folder, "store"), { ...tools, filesSocket }, { volumes: true });
      return { ...store, sessions: () => count };
    },
  };
}

/** answers FILES_AT as the launcher does: with a process of its own for the connection */
async function relay(connection: Socket, program: string): Promise<void> {
  const [first] = new FrameParser().push(await once(connection, "data").then(([chunk]) => chunk));
  if (!first) return void connection.destroy();
  const { socket } = await start(program, new FrameReader(first.payload).str());
  // A thread that is ended leaves in the middle of a file.
  for (const each of [connection, socket]) each.on("error", () => each.destroy());
  connection.write(new FrameWriter().frame(Type.ok, first.id));
  connection.pipe(socket).pipe(connection);
  connection.once("close", () => socket.destroy());
}

/** the sources for building guest/test/flatten_main.c */
export const flattenSources = ["layers/flatten", "layers/merge", "layers/copy", "test/flatten_main"];

async function openStore(path: string, tools: LayerTools, options: { volumes?: boolean } = {}): Promise<TestStore> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const needs = { layers: [] as string[], images: [] as string[] };
  const layers = new LayerStore(path, tools, options);
  const images = new ImageStore(path);
  const snapshots = new SnapshotStore({ store: path, layers, images, machines: () => needs });
  await layers.open();
  await images.open();
  await snapshots.open();
  onTestFinished(async () => {
    await snapshots.flushed();
    await layers.settled();
  });
  return { path, layers, images, snapshots, needs, reopen: () => openStore(path, tools, options) };
}

/** one process that serves one directory to one session and ends with it */
async function serve(program: string, directory: string): Promise<FileSession> {
  return new FileSession((await start(program, directory)).socket);
}

/** a process that answers file requests below a directory, and a connection to it; it ends with the connection */
async function start(program: string, directory: string): Promise<{ socket: Socket }> {
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  const path = join(folder, "socket");
  const child = spawn(program, ["serve", path, "chroot", directory, "privileged"], {
    stdio: ["ignore", "pipe", "inherit"],
    // The leak checker needs /proc, which another root lacks.
    env: { ...process.env, ASAN_OPTIONS: "detect_leaks=0" },
  });
  await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  const socket = connect(path);
  await once(socket, "connect");
  socket.once("close", () => {
    child.kill();
    void rm(folder, { recursive: true, force: true });
  });
  return { socket };
}
