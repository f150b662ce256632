/** A Linux runtime for a test file, in a folder of its own, and gone without a trace afterwards. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vercelConventions } from "../../src/api/vercel/conventions.ts";
import type { Machine, MachineSpec } from "../../src/core/ports/runtime.ts";
import { type LinuxOptions, LinuxRuntime } from "../../src/runtime/linux/driver.ts";
import { noteFolder } from "../runner/leftovers.ts";
import { guestBinary } from "../runner/needs.ts";
import { root, type Undo } from "./harness.ts";
import { prepareStore } from "./prepared-store.ts";

export interface TestRuntime {
  runtime: LinuxRuntime;
  /** its data directory */
  directory: string;
  /** the folder of its sockets */
  runRoot: string;
  /** a machine with a new id, from the default image unless the spec says otherwise */
  boot(spec?: Partial<MachineSpec>): Promise<Machine>;
  /** a second runtime on the same data, like that of a restarted daemon */
  reopen(options?: Partial<LinuxOptions>): Promise<LinuxRuntime>;
}

let count = 0;

/** a runtime of this checkout on these directories, not opened yet */
export function runtimeAt(dataDir: string, runRoot: string, options: Partial<LinuxOptions>): LinuxRuntime {
  const egress = [process.execPath, join(root, "src/egress/main.ts")];
  const conventions = vercelConventions.image;
  return new LinuxRuntime({ dataDir, runRoot, conventions, guest: guestBinary, egress, ...options });
}

/** What `withRuntime` does besides opening a runtime with these options. */
export interface RuntimeOptions extends Partial<LinuxOptions> {
  /** whether the store is made as at a first start, instead of copied; default false */
  fromNothing?: boolean;
}

/** an open runtime with the default image; `undo` ends it and everything that it made */
export async function withRuntime(
  undo: Undo,
  { fromNothing = false, ...options }: RuntimeOptions = {},
): Promise<TestRuntime> {
  const directory = await mkdtemp(join(tmpdir(), "sandkeep-data-"));
  noteFolder(undo, directory);
  undo.defer(() => rm(directory, { recursive: true, force: true }));
  const runRoot = await mkdtemp("/run/sandkeep-test-");
  noteFolder(undo, runRoot);
  undo.defer(() => rm(runRoot, { recursive: true, force: true }));
  const storage = { imageSize: 16 * 2 ** 30 };
  const make = (changes: Partial<LinuxOptions> = {}) =>
    runtimeAt(directory, runRoot, { storage, ...options, ...changes });
  if (!fromNothing && options.storage === undefined)
    await prepareStore(directory, "of-runtimes", async (dataDir) => {
      const first = runtimeAt(dataDir, runRoot, { storage });
      await first.open();
      await first.shutdown();
    });
  let runtime = make();
  undo.defer(() => runtime.shutdown());
  await runtime.open();
  const test: TestRuntime = {
    runtime,
    directory,
    runRoot,
    boot(spec = {}) {
      count++;
      return runtime.boot({ id: `test-${process.pid}-${count}`, root: { image: "host" }, ...spec });
    },
    async reopen(changes) {
      await runtime.close();
      runtime = make(changes);
      await runtime.open();
      test.runtime = runtime;
      return runtime;
    },
  };
  return test;
}
