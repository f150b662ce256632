/** The protocol's inspector calls every tool, each in a process of its own. */

import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { inspectorOf, toolCall } from "./inspector.ts";
import { type Answer, veryfrontPath } from "./mcp.ts";

const daemon = daemonOfFile();
const { inspect } = inspectorOf(daemon);

test("lists and calls every tool without a warning", async () => {
  const { tools } = await inspect("tools/list");
  const called = new Set<string>();
  const use = user(called);
  const sandbox = "inspected";
  await use("create_sandbox", { name: sandbox, network_policy: { mode: "allow-all" } });
  const { command_id } = await use("run_command", { sandbox, command: "cat", stdin: true, background: true });
  await inTurns([
    () => use("get_sandbox", { sandbox }),
    () => use("list_sandboxes", { limit: 5 }),
    () => use("extend_sandbox", { sandbox, seconds: 1 }),
    () => use("write_command_input", { sandbox, command_id, data: "x\n" }),
    () => use("read_command_output", { sandbox, command_id }),
    () =>
      use("write_file", { sandbox, path: "a.txt", content: "x" }).then(() =>
        use("read_file", { sandbox, path: "a.txt" }),
      ),
    () => use("list_files", { sandbox }),
    () => use("search_files", { sandbox, glob: "*" }),
    () => use("expose_port", { sandbox, port: 3000 }),
    () => use("set_network_policy", { sandbox, network_policy: { mode: "deny-all" } }),
    () => use("snapshot_sandbox", { sandbox }),
    () => use("fork_sandbox", { sandbox, name: "inspected-too" }),
  ]);
  await use("kill_command", { sandbox, command_id });
  await use("stop_sandbox", { sandbox });
  await use("resume_sandbox", { sandbox });
  await use("delete_sandbox", { sandbox, delete_snapshots: true });
  expect([...called].sort()).toEqual(tools.map(({ name }: { name: string }) => name).sort());
});

test("lists and calls every tool of Veryfront's without a warning", async () => {
  const { tools } = await inspect("tools/list", [], veryfrontPath);
  const called = new Set<string>();
  const use = user(called, veryfrontPath);
  const { id } = await use("create_sandbox_session", { ttl_mode: "always_on" });
  await inTurns([
    () => use("list_sandbox_sessions"),
    () => use("get_sandbox_session", { id }),
    () => use("execute_sandbox_command", { id, command: "true" }),
    () => use("start_sandbox_command_job", { id, command: "true" }),
    () => use("list_sandbox_background_commands", { id }),
  ]);
  expect([...called].sort()).toEqual(tools.map(({ name }: { name: string }) => name).sort());
});

/** calls a tool and records the call */
function user(called: Set<string>, path?: string) {
  return async (name: string, args: object = {}): Promise<Answer> => {
    called.add(name);
    const answer = await inspect("tools/call", toolCall(name, args), path);
    return answer.structuredContent;
  };
}

/** runs a few at a time: each takes most of a processor while it starts */
async function inTurns(works: (() => Promise<unknown>)[], atOnce = 3): Promise<void> {
  const rest = [...works];
  const worker = async () => {
    for (let work = rest.shift(); work; work = rest.shift()) await work();
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
