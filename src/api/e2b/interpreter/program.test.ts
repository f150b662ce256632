/** Tests of what is sent into a sandbox to serve the code interpreter. */

import { expect, test } from "vitest";
import { command, program } from "./program.ts";

test("the program has its server, its kernels and nothing else, and is small enough to send at each start", async () => {
  const bytes = await program();
  const files = JSON.parse(bytes.toString());
  expect(Object.keys(files).sort()).toEqual([
    "channels.py",
    "charts.py",
    "contexts.py",
    "environments.py",
    "handlers.py",
    "installed_kernel.py",
    "javascript_kernel.mjs",
    "jupyter_kernel.py",
    "kernel_forker.py",
    "outputs.py",
    "pipe_kernel.py",
    "python_kernel.py",
    "server.py",
  ]);
  expect(bytes.length).toBeLessThan(80 << 10);
  // Command lines are stored with each command.
  expect(command.args.join().length).toBeLessThan(1000);
});
