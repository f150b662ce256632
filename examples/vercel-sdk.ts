/**
 * A program for Vercel Sandbox, with nothing in it about Sandkeep: writes a web server into a sandbox, runs it, asks it
 * for a page, and finds its files again after a stop. With a daemon running:
 *
 *   eval "$(bin/sandkeep env vercel)"
 *   node examples/vercel-sdk.ts   (Node 22.18 or later, which reads TypeScript)
 */

import { Sandbox } from "@vercel/sandbox";

const sandbox = await Sandbox.create({ ports: [3000], timeout: 10 * 60_000 });
console.log(`${sandbox.name} is ${sandbox.status}`);

const version = await sandbox.runCommand("node", ["--version"]);
console.log(`it has Node ${(await version.stdout()).trim()}`);

const program = `
  const page = require("node:fs").readFileSync("site/page.txt");
  require("node:http").createServer((_, response) => response.end(page)).listen(3000, () => console.log("listening"));
`;
await sandbox.writeFiles([
  { path: "site/server.cjs", content: program },
  { path: "site/page.txt", content: "hello from inside" },
]);
const server = await sandbox.runCommand({ cmd: "node", args: ["site/server.cjs"], detached: true });
for await (const line of server.logs()) if (line.data.includes("listening")) break;
const page = await fetch(sandbox.domain(3000));
console.log(`it says "${await page.text()}"`);

const { snapshot } = await sandbox.stop();
console.log(`it is ${sandbox.status} and kept as ${snapshot?.status === "created" ? "a snapshot" : "nothing"}`);

// The next request resumes it.
const list = await sandbox.runCommand("ls", ["site"]);
console.log(`it is back with ${(await list.stdout()).trim().split("\n").join(" and ")}`);

await sandbox.delete();
