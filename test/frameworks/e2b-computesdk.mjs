/** ComputeSDK with its provider for E2B. */

import { e2b } from "@computesdk/e2b";

const compute = e2b({ apiKey: process.env.E2B_API_KEY });
const sandbox = await compute.sandbox.create();
const seen = {};
const { stdout, stderr, exitCode } = await sandbox.runCommand("echo hi; echo wrong >&2; exit 3");
seen.run = [exitCode, stdout, stderr];
seen.env = (await sandbox.runCommand("printenv GREETING", { env: { GREETING: "hello" } })).stdout;
await sandbox.filesystem.mkdir("/home/user/notes");
await sandbox.filesystem.writeFile("/home/user/notes/a.txt", "first");
seen.read = await sandbox.filesystem.readFile("/home/user/notes/a.txt");
seen.list = (await sandbox.filesystem.readdir("/home/user/notes")).map(({ name }) => name);
seen.status = (await sandbox.getInfo()).status;
seen.url = await sandbox.getUrl({ port: 3000 });
const again = await compute.sandbox.getById(sandbox.sandboxId);
seen.again = (await again.runCommand("cat notes/a.txt")).stdout;
seen.listed = (await compute.sandbox.list()).some(({ sandboxId }) => sandboxId === sandbox.sandboxId);
await sandbox.destroy();
console.log(JSON.stringify(seen));
process.exit(0);
