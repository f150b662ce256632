/** Veryfront's tools over MCP: their schemas against the vendor's own, and a session from its creation to its end. */

import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { structureOf, violations } from "../../schemas/schema.ts";
import { listInput, listOutput } from "../../schemas/veryfront.ts";
import { call, connect, eras, refusal, veryfrontPath } from "./mcp.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

describe.each(eras)("in %s", (era) => {
  let client: Client;
  /** our own tools, for the same sandboxes */
  let ours: Client;
  beforeAll(async () => {
    client = await connect(daemon(), era, undo, veryfrontPath);
    ours = await connect(daemon(), era, undo);
  });

  test("the vendor's tools are at a path of their own, and none of ours beside them", async () => {
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toEqual([
      ...["list_sandbox_sessions", "create_sandbox_session", "get_sandbox_session", "execute_sandbox_command"],
      ...["start_sandbox_command_job", "list_sandbox_background_commands"],
    ]);
    const own = (await ours.listTools()).tools.map(({ name }) => name);
    expect(own.filter((name) => names.includes(name))).toEqual([]);
    expect(client.getInstructions()).toMatch(/create_sandbox_session/);
  });

  test("list_sandbox_sessions takes and returns what the vendor's tool does", async () => {
    const { tools } = await client.listTools();
    const tool = tools.find(({ name }) => name === "list_sandbox_sessions");
    expect(structureOf(tool?.inputSchema)).toEqual(listInput);
    expect(structureOf(tool?.outputSchema)).toEqual(listOutput);
  });

  test("a session lives from its creation to its end, and every answer is what the vendor's schema says", async () => {
    const list = async (args: object = {}) => {
      const page = await call(client, "list_sandbox_sessions", args);
      expect(violations(listOutput, page)).toEqual([]);
      return page;
    };
    const made = await call(client, "create_sandbox_session", { ttl_mode: "duration", ttl_hours: 2 });
    expect(made).toMatchObject({ status: "running", ttl_mode: "duration", ttl_hours: 2 });
    expect(await call(client, "get_sandbox_session", { id: made.id })).toEqual(made);
    const others = [
      await call(client, "create_sandbox_session"),
      await call(client, "create_sandbox_session", { ttl_mode: "always_on" }),
    ];
    expect(others).toMatchObject([
      { ttl_mode: "default" },
      { ttl_mode: "always_on", expires_at: null, ttl_hours: null },
    ]);

    const ids = [...others.toReversed(), made].map(({ id }) => id);
    const first = await list({ limit: 2 });
    expect(first.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2));
    expect(first.page_info).toMatchObject({ self: null, first: {}, prev: null });
    const second = await list({ limit: 2, cursor: first.page_info.next });
    expect(second.data[0]).toMatchObject(made);
    const { project_id } = second.data[0];
    const back = await list({ limit: 2, cursor: second.page_info.prev });
    expect(back.data).toEqual(first.data);
    expect((await list({ project_id, limit: 1 })).data).toEqual(first.data.slice(0, 1));

    const run = await call(client, "execute_sandbox_command", {
      id: made.id,
      command: "pwd; echo $X; echo e >&2; exit 2",
      env: { X: "1" },
    });
    expect(run).toMatchObject({ exit_code: 2, stdout: "/workspace\n1\n", stderr: "e\n", truncated: false });
    const job = await call(client, "start_sandbox_command_job", { id: made.id, command: "sleep 600", cwd: "/tmp" });
    expect(job).toMatchObject({ status: "running", exit_code: null });
    const { commands } = await call(client, "list_sandbox_background_commands", { id: made.id });
    expect(commands).toContainEqual(
      expect.objectContaining({ command_id: job.command_id, status: "running", exit_code: null }),
    );
    expect(
      await call(client, "execute_sandbox_command", { id: made.id, command: "sleep 600", timeout_seconds: 1 }),
    ).toMatchObject({ exit_code: 137 });
    await call(ours, "delete_sandbox", { sandbox: run.sandbox });
    expect(await refusal(client, "execute_sandbox_command", { id: made.id, command: "true" })).toMatch(/stop/i);
    expect(await refusal(client, "get_sandbox_session", { id: made.id })).toMatch(/has ended/);
    expect((await list()).data.map(({ id }: { id: string }) => id)).not.toContain(made.id);
  });

  test("output beyond the cap can be read by the sandbox's name", async () => {
    const { id } = await call(client, "create_sandbox_session");
    const command = `node -e 'process.stdout.write("y".repeat(300000))'`;
    const run = await call(client, "execute_sandbox_command", { id, command });
    expect(run).toMatchObject({ truncated: true, next_offset: 262_144 });
    const { sandbox, command_id, next_offset: offset } = run;
    const rest = await call(ours, "read_command_output", { sandbox, command_id, offset });
    expect(run.stdout.length + rest.stdout.length).toBe(300_000);
  });
});
