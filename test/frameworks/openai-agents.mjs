/** A SandboxAgent of OpenAI's Agents SDK with its client for `service`: files, commands, and a kept workspace. */

import { run, setTracingDisabled } from "@openai/agents";
import { filesystem, Manifest, SandboxAgent, shell } from "@openai/agents/sandbox";
import { agentsModel } from "./agents-model.mjs";

setTracingDisabled(true);
const seen = {};
const { service, workspacePersistence } = process.env;
const Client =
  service === "e2b"
    ? (await import("@openai/agents-extensions/sandbox/e2b")).E2BSandboxClient
    : (await import("@openai/agents-extensions/sandbox/vercel")).VercelSandboxClient;
const client = new Client({ exposedPorts: [3000], env: { GREETING: "hello" }, workspacePersistence });
const manifest = new Manifest({ entries: { "notes/a.txt": { type: "file", content: "first" } } });
const session = await client.create({ manifest });
const agent = new SandboxAgent({
  name: "Calculator",
  model: agentsModel([
    { tool: "exec_command", args: { cmd: "echo $GREETING; cat notes/a.txt; exit 3" } },
    { tool: "exec_command", args: { cmd: "expr 6 '*' 7 > result.txt; cat result.txt" } },
  ]),
  capabilities: [shell(), filesystem()],
});
const result = await run(agent, "Compute 6 * 7", { sandbox: { session } });
const outputs = result.newItems.filter(({ type }) => type === "tool_call_output_item");
seen.agent = [outputs.map(({ output }) => String(output).replace(/^[\s\S]*Output:\n/, "")), result.finalOutput];
seen.codes = outputs.map(({ output }) => /exited with code (\d+)/.exec(String(output))?.[1]);

await session.createEditor().createFile({ path: "made/below/b.txt", type: "create_file", diff: "+second\n" });
seen.read = new TextDecoder().decode(await session.readFile({ path: "made/below/b.txt" }));
seen.port = (await session.resolveExposedPort(3000)).host;

// What a run leaves behind for the next one: an archive of the workspace, or with "snapshot" a snapshot's id.
const kept = await session.persistWorkspace();
await session.close();
const next = await client.create();
await next.hydrateWorkspace(kept);
seen.next = (await next.execCommand({ cmd: "cat result.txt" })).replace(/^[\s\S]*Output:\n/, "");
await next.close();
console.log(JSON.stringify(seen));
// The client for E2B keeps its connections open.
process.exit(0);
