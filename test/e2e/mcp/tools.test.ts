/** Every tool of ours over MCP, as an agent uses them, with the protocol's own client in both of its eras. */

import { request } from "node:http";
import { text } from "node:stream/consumers";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { call, connect, eras, type Progress, refusal } from "./mcp.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

/** in the order in which they are listed */
const names = [
  ...["create_sandbox", "fork_sandbox", "extend_sandbox", "get_sandbox", "list_sandboxes", "stop_sandbox"],
  ...["resume_sandbox", "snapshot_sandbox", "delete_sandbox"],
  ...["run_command", "read_command_output", "write_command_input", "kill_command"],
  ...["read_file", "write_file", "list_files", "search_files", "expose_port", "set_network_policy"],
];

describe.each(eras)("in %s", (era) => {
  const sandbox = `agent-${era}`;
  let client: Client;
  beforeAll(async () => {
    client = await connect(daemon(), era, undo);
    await call(client, "create_sandbox", { name: sandbox, env: { WHO: "agent" }, tags: { era } });
  });

  test("every tool has a title, a schema of its arguments and a schema of its answer", async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(names);
    for (const tool of tools) {
      expect(tool).toMatchObject({
        title: expect.any(String),
        description: expect.stringMatching(/\w{3}.*\.$/s),
        inputSchema: { type: "object", additionalProperties: false },
        outputSchema: { type: "object" },
        annotations: {
          readOnlyHint: expect.any(Boolean),
          destructiveHint: expect.any(Boolean),
          idempotentHint: expect.any(Boolean),
          openWorldHint: expect.any(Boolean),
        },
      });
    }
    // Tools that may append, signal or send input are not marked as idempotent.
    const hints = Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations]));
    for (const name of ["write_file", "kill_command", "write_command_input", "run_command"]) {
      expect(hints[name]).toMatchObject({ destructiveHint: true, idempotentHint: false });
    }
    expect(client.getInstructions()).toMatch(/^Sandkeep runs isolated Linux sandboxes/);
  });

  test("what a model reads with every request stays small", async () => {
    const { tools } = await client.listTools();
    const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value));
    const inputs = tools.reduce((total, { inputSchema }) => total + bytes(inputSchema), 0);
    expect(inputs).toBeLessThan(12_000);
    // With names, texts, annotations and the schemas of answers, which most clients do not pass to the model.
    expect(bytes(tools)).toBeLessThan(42_000);
  });

  test("a sandbox is shown and listed as it was created", async () => {
    const shown = await call(client, "get_sandbox", { sandbox });
    expect(shown).toMatchObject({
      sandbox,
      status: "running",
      session_id: expect.stringMatching(/^sbx_/),
      persistent: true,
      network_policy: { mode: "allow-all" },
      ports: [],
      tags: { era },
      snapshot_id: null,
    });
    expect(Date.parse(shown.expires_at)).toBeGreaterThan(Date.parse(shown.created_at));
    const listed = await call(client, "list_sandboxes", { tags: { era }, status: "running" });
    expect(listed).toMatchObject({ sandboxes: [{ sandbox, status: "running" }], next_cursor: null });
    expect((await call(client, "list_sandboxes", { tags: { era: "none" } })).sandboxes).toEqual([]);
  });

  test("a list continues where a page ended", async () => {
    const first = await call(client, "list_sandboxes", { limit: 1 });
    expect(first.sandboxes).toHaveLength(1);
    if (first.next_cursor === null) return;
    const second = await call(client, "list_sandboxes", { limit: 1, cursor: first.next_cursor });
    expect(second.sandboxes[0].sandbox).not.toBe(first.sandboxes[0].sandbox);
  });

  test("a command goes through a shell, or not when it has arguments", async () => {
    const piped = await call(client, "run_command", {
      sandbox,
      command: "echo $WHO | tr a-z A-Z; echo no >&2; exit 3",
    });
    expect(piped).toMatchObject({ status: "exited", exit_code: 3, stdout: "AGENT\n", stderr: "no\n", has_more: false });
    const plain = await call(client, "run_command", { sandbox, command: "echo", args: ["$WHO", "|"], cwd: "/tmp" });
    expect(plain).toMatchObject({ stdout: "$WHO |\n", exit_code: 0 });
    const root = await call(client, "run_command", {
      sandbox,
      command: "id -u; pwd; echo $X",
      sudo: true,
      cwd: "/tmp",
      env: { X: "y" },
    });
    expect(root.stdout).toBe("0\n/tmp\ny\n");
  });

  test("a missing thing is reported in a sentence", async () => {
    expect(await refusal(client, "run_command", { sandbox, command: "no-such-program", args: [] })).toMatch(
      /no-such-program/,
    );
    expect(await refusal(client, "run_command", { sandbox: "nobody", command: "true" })).toMatch(/'nobody' not found/);
    const command_id = `cmd_${"0".repeat(28)}`;
    expect(await refusal(client, "kill_command", { sandbox, command_id })).toBe(`Command "${command_id}" not found.`);
    expect(await refusal(client, "read_file", { sandbox, path: "/none" })).toMatch(/\/none/);
  });

  test("a background command is given input, read from an offset, and ended", async () => {
    const started = await call(client, "run_command", {
      sandbox,
      command: "cat; sleep 600",
      background: true,
      stdin: true,
    });
    expect(started).toMatchObject({ status: "running", exit_code: null });
    const { command_id } = started;
    await call(client, "write_command_input", { sandbox, command_id, data: "one\n" });
    const read = (args: object) => call(client, "read_command_output", { sandbox, command_id, ...args });
    const first = await eventually("the first line", async () => {
      const part = await read({ offset: 0 });
      return part.stdout === "one\n" && part;
    });
    expect(first).toMatchObject({ status: "running", next_offset: 4 });
    const closed = await call(client, "write_command_input", { sandbox, command_id, data: "two\n", close: true });
    expect(closed).toEqual({ command_id, written_bytes: 4, closed: true });
    await eventually("the second line", async () => (await read({ offset: 4 })).stdout === "two\n");
    await call(client, "kill_command", { sandbox, command_id, signal: "SIGKILL" });
    const ended = await read({ offset: first.next_offset, wait_seconds: 60 });
    expect(ended).toMatchObject({ status: "exited", exit_code: 137, stdout: "two\n", next_offset: 8, has_more: false });
  });

  test("a command that is not waited for keeps running, and one with a timeout does not", async () => {
    const slow = await call(client, "run_command", { sandbox, command: "sleep 600", wait_seconds: 1 });
    expect(slow).toMatchObject({ status: "running", exit_code: null });
    await call(client, "kill_command", { sandbox, command_id: slow.command_id, signal: "SIGKILL" });
    const limited = await call(client, "run_command", { sandbox, command: "sleep 600", timeout_seconds: 1 });
    expect(limited).toMatchObject({ status: "exited", end_cause: "timeout" });
  });

  test("output is capped between characters, and nothing of it is lost", async () => {
    const command = `node -e 'process.stdout.write("é".repeat(3000)); process.stderr.write("x".repeat(1000))'`;
    let part = await call(client, "run_command", { sandbox, command, max_output_bytes: 1025 });
    expect(part).toMatchObject({ stdout: "é".repeat(512), stderr: "", has_more: true, next_offset: 1024 });
    let [stdout, stderr] = [part.stdout, part.stderr];
    while (part.has_more) {
      const { command_id, next_offset: offset } = part;
      part = await call(client, "read_command_output", { sandbox, command_id, offset, max_output_bytes: 1025 });
      stdout += part.stdout;
      stderr += part.stderr;
    }
    expect([stdout, stderr]).toEqual(["é".repeat(3000), "x".repeat(1000)]);
  });

  test("progress is reported to clients that ask for it, and always increases", async () => {
    const heard: Progress[] = [];
    const command = "echo working; sleep 2.5";
    await call(client, "run_command", { sandbox, command }, { onprogress: (progress) => void heard.push(progress) });
    expect(heard[0]).toMatchObject({ progress: 0, message: expect.stringMatching(/^Command cmd_\w+ has started$/) });
    expect(heard.length).toBeGreaterThanOrEqual(2);
    expect(heard.at(-1)?.message).toBe("working");
    const told = heard.map(({ progress }) => progress);
    expect(told).toEqual([...new Set(told)].sort((a, b) => a - b));
  });

  test("cancelling a call kills its command with all its processes", async () => {
    const cancel = new AbortController();
    const mark = `mark-${era}`;
    const running = call(
      client,
      "run_command",
      { sandbox, command: `bash -c 'exec -a ${mark} sleep 600' & wait` },
      {
        signal: cancel.signal,
        onprogress: ({ progress }) => progress === 0 && setTimeout(() => cancel.abort(), 100),
      },
    );
    await expect(running).rejects.toThrow();
    await eventually("the processes are gone", async () => {
      const { stdout } = await call(client, "run_command", { sandbox, command: `ps ax -o args | grep -c '^${mark}'` });
      return stdout === "0\n";
    });
  });

  test("files are written, read in parts, listed and searched", async () => {
    const text = "first line\nsecond line\n";
    const written = await call(client, "write_file", { sandbox, path: "src/deep/a.txt", content: text });
    expect(written).toEqual({ path: expect.stringMatching(/\/src\/deep\/a\.txt$/), size: 23 });
    await call(client, "write_file", { sandbox, path: "src/deep/a.txt", content: "third\n", append: true });
    const read = await call(client, "read_file", { sandbox, path: "src/deep/a.txt" });
    expect(read).toMatchObject({ content: `${text}third\n`, encoding: "utf-8", size: 29, next_offset: null });
    const bytes = Buffer.from([0, 255, 128, 7]).toString("base64");
    await call(client, "write_file", { sandbox, path: "src/b.bin", content: bytes, encoding: "base64" });
    expect(await call(client, "read_file", { sandbox, path: "src/b.bin" })).toMatchObject({
      content: bytes,
      encoding: "base64",
    });
    await call(client, "write_file", {
      sandbox,
      path: "src/run.sh",
      content: "#!/bin/sh\necho ran\n",
      executable: true,
    });
    expect(await call(client, "run_command", { sandbox, command: "./src/run.sh" })).toMatchObject({ stdout: "ran\n" });

    const listed = await call(client, "list_files", { sandbox, path: "src", limit: 2 });
    expect(listed).toMatchObject({
      total: 3,
      next_offset: 2,
      entries: [
        { name: "b.bin", type: "file", size: 4 },
        { name: "deep", type: "directory" },
      ],
    });
    expect((await call(client, "list_files", { sandbox, path: "src", offset: 2 })).entries).toMatchObject([
      { name: "run.sh" },
    ]);

    const found = await call(client, "search_files", { sandbox, text: "second", path: "src" });
    expect(found).toEqual({ matches: [{ path: written.path, line: 2, text: "second line" }], has_more: false });
    const byName = await call(client, "search_files", { sandbox, glob: "*.sh", path: "src" });
    expect(byName.matches).toMatchObject([{ path: expect.stringMatching(/run\.sh$/), line: null, text: null }]);
    expect(
      await call(client, "search_files", { sandbox, text: "l.ne$", regex: true, path: "src", limit: 1 }),
    ).toMatchObject({ matches: [{ line: 1 }], has_more: true });
    expect((await call(client, "search_files", { sandbox, text: "nowhere", path: "src" })).matches).toEqual([]);
    expect(await refusal(client, "search_files", { sandbox, text: "(", regex: true, path: "src" })).toMatch(
      /^Cannot search .*: grep: Unmatched \(/,
    );
  });

  test("a search finds lines of a single file, names with line breaks and files behind a link", async () => {
    const { path } = await call(client, "write_file", { sandbox, path: "odd/a\nb:1:c", content: "first\nneedle\n" });
    const match = { path, line: 2, text: "needle" };
    for (const place of ["odd", "odd/a\nb:1:c"]) {
      const found = await call(client, "search_files", { sandbox, text: "needle", path: place });
      expect(found.matches).toEqual([match]);
    }
    await call(client, "run_command", { sandbox, command: "ln -s odd link" });
    const linked = await call(client, "search_files", { sandbox, glob: "a*", path: "link" });
    expect(linked.matches).toMatchObject([{ path: expect.stringMatching(/link\/a\nb:1:c$/) }]);
  });

  test("a search that finds nothing succeeds, also if some files cannot be read", async () => {
    await call(client, "run_command", { sandbox, command: "mkdir -p open/closed; chmod 0 open/closed" });
    for (const wanted of [{ text: "nowhere" }, { glob: "nowhere" }]) {
      expect((await call(client, "search_files", { sandbox, path: "open", ...wanted })).matches).toEqual([]);
    }
    expect(await refusal(client, "search_files", { sandbox, path: "open/closed", text: "nowhere" })).toMatch(
      /Permission denied$/,
    );
  });

  test("a long file is read in parts that end between characters", async () => {
    await call(client, "write_file", { sandbox, path: "long.txt", content: "ü".repeat(2000) });
    const parts: string[] = [];
    for (let offset: number | null = 0; offset !== null; ) {
      const part = await call(client, "read_file", { sandbox, path: "long.txt", offset, max_bytes: 1025 });
      expect(part.encoding).toBe("utf-8");
      parts.push(part.content);
      offset = part.next_offset;
    }
    expect(parts.length).toBe(4);
    expect(parts.join("")).toBe("ü".repeat(2000));
  });

  test("a port gets an address and keeps it", async () => {
    const { url } = await call(client, "expose_port", { sandbox, port: 8080 });
    expect(await call(client, "expose_port", { sandbox, port: 8080 })).toEqual({ sandbox, port: 8080, url });
    const ports = await Promise.all([8081, 8082].map((port) => call(client, "expose_port", { sandbox, port })));
    const shown = await call(client, "get_sandbox", { sandbox });
    expect(shown.ports.map(({ port }: { port: number }) => port).sort()).toEqual([8080, 8081, 8082]);
    expect(new Set(ports.map((each) => each.url)).size).toBe(2);
    const command =
      "node -e 'require(`http`).createServer((_, answer) => answer.end(`inside`)).listen(8080)'".replaceAll("`", '"');
    await call(client, "run_command", { sandbox, command, background: true });
    await eventually("the server answers", async () => (await fetched(url)) === "inside");
  });

  test("the network policy changes at once", async () => {
    const custom = {
      mode: "custom",
      allowed_domains: ["*.example.com"],
      allowed_cidrs: ["93.184.216.0/24"],
      denied_cidrs: [],
    };
    const changed = await call(client, "set_network_policy", { sandbox, network_policy: custom });
    expect(changed).toEqual({ sandbox, network_policy: custom });
    expect((await call(client, "get_sandbox", { sandbox })).network_policy).toEqual(custom);
    const { sandbox: fork, network_policy } = await call(client, "fork_sandbox", { sandbox });
    expect(network_policy).toEqual(custom);
    await call(client, "delete_sandbox", { sandbox: fork });
    await call(client, "stop_sandbox", { sandbox });
    expect((await call(client, "resume_sandbox", { sandbox })).network_policy).toEqual(custom);
  });

  test("its time can be extended, up to the host's limit", async () => {
    const before = Date.parse((await call(client, "get_sandbox", { sandbox })).expires_at);
    const after = Date.parse((await call(client, "extend_sandbox", { sandbox, seconds: 60 })).expires_at);
    expect(after - before).toBe(60_000);
    expect(await refusal(client, "extend_sandbox", { sandbox, seconds: 86_400 })).toMatch(/the timeout would be/);
  });

  test("a snapshot is taken while it keeps running, and others start from it", async () => {
    await call(client, "write_file", { sandbox, path: "kept.txt", content: "kept" });
    const background = await call(client, "run_command", { sandbox, command: "sleep 600", background: true });
    const snapshot = await call(client, "snapshot_sandbox", { sandbox, expiration_days: 1 });
    expect(snapshot).toMatchObject({ sandbox, snapshot_id: expect.stringMatching(/^snap_/) });
    expect(Date.parse(snapshot.expires_at) - Date.parse(snapshot.created_at)).toBe(86_400_000);
    const { command_id } = background;
    expect(await call(client, "read_command_output", { sandbox, command_id })).toMatchObject({ status: "running" });
    await call(client, "write_file", { sandbox, path: "kept.txt", content: "changed" });
    const { sandbox: copy } = await call(client, "create_sandbox", {
      snapshot_id: snapshot.snapshot_id,
      persistent: false,
    });
    expect((await call(client, "read_file", { sandbox: copy, path: "kept.txt" })).content).toBe("kept");
    await call(client, "delete_sandbox", { sandbox: copy });
    expect(await refusal(client, "get_sandbox", { sandbox: copy })).toMatch(/not found/);
  });

  test("a fork has the files of this moment, and settings of its own if requested", async () => {
    await call(client, "write_file", { sandbox, path: "kept.txt", content: "of this moment" });
    const name = `fork-${era}`;
    const fork = await call(client, "fork_sandbox", { sandbox, name, tags: { fork: "yes" }, ports: [9000] });
    expect(fork).toMatchObject({ sandbox: name, status: "running", tags: { fork: "yes" }, ports: [{ port: 9000 }] });
    expect((await call(client, "read_file", { sandbox: name, path: "kept.txt" })).content).toBe("of this moment");
    expect((await call(client, "run_command", { sandbox: name, command: "echo $WHO" })).stdout).toBe("agent\n");
    expect((await call(client, "get_sandbox", { sandbox })).status).toBe("running");
    expect(await call(client, "delete_sandbox", { sandbox: name, delete_snapshots: true })).toEqual({
      sandbox: name,
      deleted: true,
    });
  });

  test("it resumes with the last written files, also if a snapshot and a stop overlap", async () => {
    for (const content of ["first", "second", "third"]) {
      const snapshot = call(client, "snapshot_sandbox", { sandbox }).catch(String);
      await call(client, "write_file", { sandbox, path: "race.txt", content });
      await Promise.all(
        [snapshot, call(client, "snapshot_sandbox", { sandbox }), call(client, "stop_sandbox", { sandbox })].map(
          (each) => each.catch(String),
        ),
      );
      await call(client, "resume_sandbox", { sandbox });
      expect((await call(client, "read_file", { sandbox, path: "race.txt" })).content).toBe(content);
    }
  });

  test("it is stopped with its files and resumed with them", async () => {
    await call(client, "write_file", { sandbox, path: "last.txt", content: "last words" });
    const stopped = await call(client, "stop_sandbox", { sandbox });
    expect(stopped).toMatchObject({
      status: "stopped",
      expires_at: null,
      snapshot_id: expect.stringMatching(/^snap_/),
    });
    expect(await call(client, "stop_sandbox", { sandbox })).toMatchObject({ status: "stopped" });
    expect(await refusal(client, "run_command", { sandbox, command: "true" })).toMatch(/has stopped.*; resume_sandbox/);
    expect(await refusal(client, "snapshot_sandbox", { sandbox })).toMatch(/has stopped/);
    const resumed = await call(client, "resume_sandbox", { sandbox });
    expect(resumed.status).toBe("running");
    expect(resumed.session_id).not.toBe(stopped.session_id);
    expect((await call(client, "read_file", { sandbox, path: "last.txt" })).content).toBe("last words");
    expect(await call(client, "resume_sandbox", { sandbox })).toMatchObject({ session_id: resumed.session_id });
  });
});

/** what a server in a sandbox answers at its address */
function fetched(url: string): Promise<string> {
  const { host, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, headers: { host } };
    request(options, (response) => resolve(text(response)))
      .on("error", reject)
      .end();
  });
}
