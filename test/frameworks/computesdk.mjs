/** ComputeSDK with its provider for Vercel. */

import { vercel } from "@computesdk/vercel";

const compute = vercel({ ports: [3000] });
const sandbox = await compute.sandbox.create();
const seen = {};
const { stdout, stderr, exitCode } = await sandbox.runCommand("echo hi; echo wrong >&2; exit 3");
seen.run = [exitCode, stdout, stderr];
seen.env = (await sandbox.runCommand("printenv GREETING", { env: { GREETING: "hello" } })).stdout;
seen.python = (await sandbox.runCommand("python - <<'PY'\nprint(6 * 7)\nPY")).stdout;
await sandbox.filesystem.writeFile("notes.txt", "first");
seen.read = await sandbox.filesystem.readFile("notes.txt");
seen.status = (await sandbox.getInfo()).status;
seen.url = await sandbox.getUrl({ port: 3000 });
const again = await compute.sandbox.getById(sandbox.sandboxId);
seen.again = (await again.runCommand("cat notes.txt")).stdout;
const { snapshotId } = await compute.snapshot.create(sandbox.sandboxId);
const copy = await compute.sandbox.create({ snapshotId });
seen.copy = (await copy.runCommand("cat notes.txt")).stdout;
await copy.destroy();
await compute.snapshot.delete(snapshotId);
await sandbox.destroy();
console.log(JSON.stringify(seen));
