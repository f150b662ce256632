/** A workspace of Mastra in a sandbox of E2B: commands, background processes, and a pause between two uses. */

import { Workspace } from "@mastra/core/workspace";
import { E2BSandbox } from "@mastra/e2b";

const seen = {};
const sandbox = new E2BSandbox({ id: "mastra-test", timeout: 600_000, template: "base", env: { GREETING: "hello" } });
const workspace = new Workspace({ sandbox });
await workspace.init();
const { stdout, stderr, exitCode } = await workspace.sandbox.executeCommand("sh", ["-c", "echo $GREETING"]);
seen.run = [exitCode, stdout, stderr];
// Mastra repeats the output of a command that fails.
seen.failed = (await workspace.sandbox.executeCommand("sh", ["-c", "exit 3"])).exitCode;
seen.wrote = (await sandbox.executeCommand("sh", ["-c", "echo kept > notes.txt"])).exitCode;
const background = await sandbox.processes.spawn("echo begun; sleep 600");
seen.killed = await background.kill();
await sandbox._stop();
seen.afterStop = sandbox.status;
// Another object of the same id finds the same sandbox.
const other = new E2BSandbox({ id: "mastra-test", template: "base" });
seen.other = (await other.executeCommand("cat", ["notes.txt"])).stdout;
await other._destroy();
console.log(JSON.stringify(seen));
process.exit(0);
