/** A workspace of Mastra in a sandbox, and what it does when it is started again after a stop. */

import { Workspace } from "@mastra/core/workspace";
import { VercelSandbox } from "@mastra/vercel";

let requests = 0;
const { fetch } = globalThis;
globalThis.fetch = (...args) => {
  requests++;
  return fetch(...args);
};

const seen = {};
const sandbox = new VercelSandbox({ sandboxName: "mastra", timeout: 600_000, env: { GREETING: "hello" } });
const workspace = new Workspace({ sandbox });
await workspace.init();
const { stdout, stderr, exitCode } = await workspace.sandbox.executeCommand("sh", ["-c", "echo $GREETING; exit 3"]);
seen.run = [exitCode, stdout, stderr];
await sandbox.writeFiles([{ path: "notes/a.txt", content: Buffer.from("kept") }]);
const background = await sandbox.processes.spawn("echo begun; sleep 600");
await background.kill();
seen.killed = (await background.wait()).exitCode;

// The way of a workspace: its own _stop() knows that the sandbox has stopped, and the next command starts it again.
await sandbox._stop();
seen.afterStop = sandbox.status;
seen.kept = (await sandbox.executeCommand("cat", ["notes/a.txt"])).stdout;

// stop() called by itself stops the sandbox without changing the status, so start() has nothing to do.
await sandbox.stop();
seen.afterBareStop = sandbox.status;
requests = 0;
await sandbox.start();
seen.failure = await sandbox.executeCommand("true").catch((error) => error.constructor.name);
seen.requests = requests;

// The service is ready all the while: another object of the same name goes on.
const other = new VercelSandbox({ sandboxName: "mastra" });
seen.other = (await other.executeCommand("cat", ["notes/a.txt"])).stdout;
await other.destroy();
console.log(JSON.stringify(seen));
process.exit(0);
