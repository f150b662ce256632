/**
 * The tools' descriptions for a model are true and complete: every sentence of every tool is quoted here, next to what
 * happens. A sentence that is added or changed fails the test until it is quoted and tried.
 */

import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { type Answer, call, connect, refusal } from "./mcp.ts";

const undo = new AsyncDisposableStack();
const daemon = daemonOfFile();
let client: Client;
let count = 0;

beforeAll(async () => {
  client = await connect(daemon(), "2026-07-28", undo);
});
afterAll(() => undo.disposeAsync());

const ask = (name: string, args: object) => call(client, name, args);
const ran = (sandbox: string, command: string, more: object = {}) => ask("run_command", { sandbox, command, ...more });
const printed = async (sandbox: string, command: string): Promise<string> => (await ran(sandbox, command)).stdout;

/** a new sandbox, as its creation returned it */
async function made(args: object = {}): Promise<Answer> {
  return ask("create_sandbox", { name: `told-${++count}`, ...args });
}

const stopped = (sandbox: string) => ask("stop_sandbox", { sandbox });

interface Claim {
  /** the description, sentence by sentence */
  says: string[];
  /** shows that it is true, with a sandbox of its own that runs in `cwd` */
  holds(sandbox: string, about: Answer): Promise<void>;
}

const claims: Record<string, Claim> = {
  create_sandbox: {
    says: [
      "Create an isolated Linux machine with its own files, processes and network, and sudo inside, and wait until it runs.",
      "Use it to run code, install packages or start servers.",
      "Returns its name, which the other tools take as sandbox, its working directory (cwd) and expires_at, when it stops by itself.",
    ],
    async holds(sandbox, { cwd, status, expires_at }) {
      expect(status).toBe("running");
      expect(await printed(sandbox, "pwd; sudo id -u; touch /tmp/own")).toBe(`${cwd}\n0\n`);
      const other = await made();
      await ran(sandbox, "exec python3 -m http.server 8000", { background: true });
      const ask8000 = "curl -s -o /dev/null localhost:8000 && echo answered";
      await eventually("it serves", async () => (await printed(sandbox, ask8000)) === "answered\n");
      expect(await printed(other.sandbox, `ls /tmp; pgrep -f 'http.serve[r]'; ${ask8000}`)).toBe("");
      expect(Date.parse(expires_at)).toBeGreaterThan(Date.now());
      const short = await made({ timeout_seconds: 2 });
      await eventually("it stops by itself", async () => {
        const { status: now } = await ask("get_sandbox", { sandbox: short.sandbox });
        return now === "stopped" && Date.now() >= Date.parse(short.expires_at);
      });
    },
  },
  fork_sandbox: {
    says: [
      "Copy a sandbox: a new one with the same files as they are now, and the same settings but for those you pass.",
      "Use it to try something risky, or several things at once.",
      "Processes are not copied, and the original keeps running.",
      "Returns the new sandbox.",
    ],
    async holds(sandbox) {
      await ran(sandbox, "echo now > kept; sleep 1235 > /dev/null 2>&1 &");
      const copy = await ask("fork_sandbox", { sandbox, tags: { a: "fork" } });
      expect(copy).toMatchObject({ status: "running", tags: { a: "fork" }, vcpus: 1 });
      expect(copy.sandbox).not.toBe(sandbox);
      expect(await printed(copy.sandbox, "cat kept; pgrep -f 'slee[p] 1235'")).toBe("now\n");
      expect(await printed(sandbox, "pgrep -fc 'slee[p] 1235'")).toBe("1\n");
    },
  },
  extend_sandbox: {
    says: [
      "Postpone the moment at which a running sandbox stops by itself.",
      "Use it before work that outlasts expires_at.",
      "Returns the sandbox with its new expires_at.",
    ],
    async holds(sandbox, { expires_at }) {
      const extended = await ask("extend_sandbox", { sandbox, seconds: 60 });
      expect(extended.sandbox).toBe(sandbox);
      expect(Date.parse(extended.expires_at)).toBe(Date.parse(expires_at) + 60_000);
      expect((await ask("get_sandbox", { sandbox })).expires_at).toBe(extended.expires_at);
      await stopped(sandbox);
      expect(await refusal(client, "extend_sandbox", { sandbox, seconds: 60 })).toMatch(/stopped/);
    },
  },
  get_sandbox: {
    says: [
      "Show one sandbox: status, working directory, size, network policy, URLs of its ports and expires_at.",
      "Use it to check that it runs and for how long.",
    ],
    async holds(sandbox, { cwd, expires_at }) {
      const { url } = await ask("expose_port", { sandbox, port: 3000 });
      expect(await ask("get_sandbox", { sandbox })).toMatchObject({
        ...{ sandbox, cwd, expires_at, status: "running", vcpus: 1, memory_mib: 2048 },
        ...{ network_policy: { mode: "allow-all" }, ports: [{ port: 3000, url }] },
      });
      await stopped(sandbox);
      expect(await ask("get_sandbox", { sandbox })).toMatchObject({ status: "stopped" });
    },
  },
  list_sandboxes: {
    says: [
      "List the sandboxes of your project, newest first, stopped ones too.",
      "Use it to find one again.",
      "Returns a page and next_cursor, which is null on the last page.",
    ],
    async holds(sandbox) {
      const tags = { told: "list" };
      const newer = await made({ tags });
      const newest = await made({ tags });
      await stopped(newer.sandbox);
      const page = await ask("list_sandboxes", { tags, limit: 1 });
      expect(page.sandboxes).toMatchObject([{ sandbox: newest.sandbox, status: "running" }]);
      const last = await ask("list_sandboxes", { tags, limit: 1, cursor: page.next_cursor });
      expect(last).toMatchObject({ sandboxes: [{ sandbox: newer.sandbox, status: "stopped" }], next_cursor: null });
      const all = await ask("list_sandboxes", { limit: 100 });
      expect(all.sandboxes.map((it: Answer) => it.sandbox)).toContain(sandbox);
    },
  },
  stop_sandbox: {
    says: [
      "Stop a sandbox and end its processes.",
      "Use it when you are done for now.",
      "The files of a persistent sandbox are kept, and resume_sandbox brings them back; those of any other are lost.",
      "Stopping it twice changes nothing.",
      "Returns the sandbox, with the snapshot_id that holds its files.",
    ],
    async holds(sandbox) {
      await ran(sandbox, "echo kept > kept; sleep 1236 > /dev/null 2>&1 &");
      const first = await stopped(sandbox);
      expect(first).toMatchObject({ sandbox, status: "stopped", snapshot_id: expect.any(String) });
      expect(await stopped(sandbox)).toEqual(first);
      await ask("resume_sandbox", { sandbox });
      expect(await printed(sandbox, "cat kept; pgrep -f 'slee[p] 1236'")).toBe("kept\n");
      const other = await made({ persistent: false });
      expect(await stopped(other.sandbox)).toMatchObject({ status: "stopped", snapshot_id: null });
      expect(await refusal(client, "resume_sandbox", { sandbox: other.sandbox })).toMatch(/no snapshot/);
    },
  },
  resume_sandbox: {
    says: [
      "Start a stopped sandbox again with the files of its last snapshot; its processes are gone.",
      "Use it when a tool says that the sandbox has stopped.",
      "Returns the sandbox; one that runs is left as it is.",
    ],
    async holds(sandbox) {
      await ran(sandbox, "echo kept > kept; sleep 1237 > /dev/null 2>&1 &");
      const before = await ask("resume_sandbox", { sandbox });
      expect(await ask("get_sandbox", { sandbox })).toEqual(before);
      expect(await printed(sandbox, "pgrep -fc 'slee[p] 1237'")).toBe("1\n");
      await stopped(sandbox);
      expect(await refusal(client, "run_command", { sandbox, command: "true" })).toMatch(/stopped.*resume_sandbox/);
      expect(await ask("resume_sandbox", { sandbox })).toMatchObject({ sandbox, status: "running" });
      expect(await printed(sandbox, "cat kept; pgrep -f 'slee[p] 1237'")).toBe("kept\n");
    },
  },
  snapshot_sandbox: {
    says: [
      "Save the files of a running sandbox as they are now; it keeps running.",
      "Use it before changes that you may want to undo.",
      "Returns a snapshot_id, from which create_sandbox starts new sandboxes.",
    ],
    async holds(sandbox, { session_id }) {
      await ran(sandbox, "echo saved > file");
      const { snapshot_id } = await ask("snapshot_sandbox", { sandbox });
      await ran(sandbox, "echo changed > file");
      expect(await ask("get_sandbox", { sandbox })).toMatchObject({ status: "running", session_id });
      const back = await made({ snapshot_id });
      expect(await printed(back.sandbox, "cat file")).toBe("saved\n");
    },
  },
  delete_sandbox: {
    says: [
      "Delete a sandbox and its files for good, running or not.",
      "Use it when you will not need it again.",
      "Its snapshots stay unless delete_snapshots is true.",
      "Returns its name, and deleted: true.",
    ],
    async holds(sandbox) {
      const { snapshot_id } = await ask("snapshot_sandbox", { sandbox });
      expect(await ask("delete_sandbox", { sandbox })).toEqual({ sandbox, deleted: true });
      expect(await refusal(client, "get_sandbox", { sandbox })).toContain(sandbox);
      const again = await made({ snapshot_id });
      const { snapshot_id: own } = await ask("snapshot_sandbox", { sandbox: again.sandbox });
      await stopped(again.sandbox);
      await ask("delete_sandbox", { sandbox: again.sandbox, delete_snapshots: true });
      expect(await refusal(client, "create_sandbox", { snapshot_id: own })).toMatch(/[Ss]napshot/);
    },
  },
  run_command: {
    says: [
      "Run a command in a running sandbox and wait for its end, at most wait_seconds.",
      "Use it for everything that a terminal is for.",
      "command is a line for bash, so pipes and && work; with args it is a program that starts without a shell.",
      "Returns exit_code, stdout and stderr.",
      "What still runs after wait_seconds, and what you start with background (servers), continues: read_command_output reads on.",
      "Cancelling the call kills the command.",
    ],
    async holds(sandbox) {
      expect(await ran(sandbox, "echo a | tr a b && echo c >&2; [[ x ]] && exit 7")).toMatchObject({
        ...{ status: "exited", exit_code: 7, stdout: "b\n", stderr: "c\n" },
      });
      expect(await ran(sandbox, "echo", { args: ["$HOME", "a b"] })).toMatchObject({ stdout: "$HOME a b\n" });
      const waiting = "while [ ! -e /tmp/go ]; do sleep 0.1; done; echo went on";
      const runs = await Promise.all([
        ran(sandbox, waiting, { wait_seconds: 1 }),
        ran(sandbox, waiting, { background: true }),
      ]);
      for (const { status, exit_code } of runs) expect([status, exit_code]).toEqual(["running", null]);
      await ran(sandbox, "touch /tmp/go");
      for (const { command_id } of runs) {
        const rest = await ask("read_command_output", { sandbox, command_id, wait_seconds: 60 });
        expect(rest).toMatchObject({ status: "exited", stdout: "went on\n" });
      }
      const cancelled = new AbortController();
      const command = "exec sleep 1238";
      const cut = expect(
        call(client, "run_command", { sandbox, command }, { signal: cancelled.signal }),
      ).rejects.toThrow();
      const sleeps = async () => (await printed(sandbox, "pgrep -fc 'slee[p] 1238'")) === "1\n";
      await eventually("it runs", sleeps);
      cancelled.abort();
      await cut;
      await eventually("it is killed", async () => !(await sleeps()));
    },
  },
  read_command_output: {
    says: [
      "Read what a command has written, from an offset on.",
      "Use it for commands that run in the background or wrote more than one answer holds; it works after their end too.",
      "Offsets count bytes of stdout and stderr together: begin with 0, continue with next_offset.",
      "With wait_seconds it first waits for the command's end.",
      "Returns status, exit_code, stdout and stderr.",
    ],
    async holds(sandbox) {
      const script = "printf '%01500d' 0; printf '%01500d' 1 >&2; sleep 1; echo end; exit 3";
      const { command_id } = await ran(sandbox, script, { background: true });
      const of = (args: object) => ask("read_command_output", { sandbox, command_id, ...args });
      const whole = await of({ wait_seconds: 60 });
      expect(whole).toMatchObject({ status: "exited", exit_code: 3, next_offset: 3004, has_more: false });
      expect([whole.stdout.length, whole.stderr.length]).toEqual([1504, 1500]);
      const part = await of({ max_output_bytes: 2000 });
      expect(part).toMatchObject({ next_offset: 2000, has_more: true });
      expect(part.stdout.length + part.stderr.length).toBe(2000);
      const rest = await of({ offset: part.next_offset });
      expect([part.stdout + rest.stdout, part.stderr + rest.stderr]).toEqual([whole.stdout, whole.stderr]);
    },
  },
  write_command_input: {
    says: [
      "Write text to the standard input of a command that run_command started with stdin: true.",
      "Use it to answer prompts.",
      "End lines with a newline; close ends the input, which programs such as cat wait for.",
      "Returns the bytes written.",
    ],
    async holds(sandbox) {
      const start = (command: string, stdin: boolean) => ran(sandbox, command, { stdin, background: true });
      const { command_id } = await start("read line; echo got $line; cat", true);
      const write = (args: object) => ask("write_command_input", { sandbox, command_id, ...args });
      expect(await write({ data: "né\nrest" })).toMatchObject({ written_bytes: 8, closed: false });
      expect(await write({ data: "", close: true })).toMatchObject({ written_bytes: 0, closed: true });
      const { stdout } = await ask("read_command_output", { sandbox, command_id, wait_seconds: 60 });
      expect(stdout).toBe("got né\nrest");
      const { command_id: without } = await start("exec sleep 1000", false);
      const asked = { sandbox, command_id: without, data: "x" };
      expect(await refusal(client, "write_command_input", asked)).toMatch(/standard input|stdin/);
    },
  },
  kill_command: {
    says: [
      "Send a signal to a command and the processes of its group.",
      "Use it to end what runs in the background: SIGTERM asks it to end, SIGKILL ends it.",
      "Returns its status as it is right after the signal.",
    ],
    async holds(sandbox) {
      const script = "trap 'echo asked' TERM; while :; do sleep 1239; done";
      const { command_id } = await ran(sandbox, script, { background: true });
      const sleeps = async () => (await printed(sandbox, "pgrep -fc 'slee[p] 1239$'")) === "1\n";
      await eventually("it runs", sleeps);
      const read = (wait_seconds = 0) => ask("read_command_output", { sandbox, command_id, wait_seconds });
      expect(await ask("kill_command", { sandbox, command_id })).toMatchObject({ command_id, status: "running" });
      // Its child was sent the signal too, or else the shell would wait for it.
      await eventually("it was asked", async () => (await read()).stdout === "asked\n");
      const { status } = await ask("kill_command", { sandbox, command_id, signal: "SIGKILL" });
      expect(["running", "exited"]).toContain(status);
      expect(await read(60)).toMatchObject({ status: "exited", exit_code: 137 });
      await eventually("its group has ended", async () => !(await sleeps()));
    },
  },
  read_file: {
    says: [
      "Read a file of a running sandbox, or a part of it.",
      "Use it to look at code, logs and results.",
      "Returns text as it is and anything else as base64, which encoding tells, and next_offset to read on from, which is null at the end of the file.",
    ],
    async holds(sandbox) {
      await ran(sandbox, "printf '%02000d' 0 > text; printf '\\377\\376' > bytes");
      const part = await ask("read_file", { sandbox, path: "text", max_bytes: 1024 });
      expect(part).toMatchObject({ encoding: "utf-8", content: "0".repeat(1024), size: 2000, next_offset: 1024 });
      const rest = await ask("read_file", { sandbox, path: "text", offset: 1024 });
      expect(rest).toMatchObject({ content: "0".repeat(976), next_offset: null });
      const bytes = await ask("read_file", { sandbox, path: "bytes" });
      expect(bytes).toMatchObject({ encoding: "base64", content: "//4=", next_offset: null });
    },
  },
  write_file: {
    says: [
      "Write a file in a running sandbox, and make the directories on its path.",
      "Use it for code and data, which need no quoting here as they do in a command.",
      "An existing file is replaced, or continued with append.",
      "Returns its absolute path and its size.",
    ],
    async holds(sandbox, { cwd }) {
      const content = "$HOME `id` \"'\\\n";
      const write = (args: object) => ask("write_file", { sandbox, path: "new/folder/file", ...args });
      expect(await write({ content: "to be replaced" })).toEqual({ path: `${cwd}/new/folder/file`, size: 14 });
      expect(await write({ content })).toMatchObject({ size: content.length });
      expect(await write({ content: "more", append: true })).toMatchObject({ size: content.length + 4 });
      expect(await printed(sandbox, "cat new/folder/file")).toBe(`${content}more`);
    },
  },
  list_files: {
    says: [
      "List a directory of a running sandbox, sorted by name.",
      "Use it to learn which files are there.",
      "Returns name, type, size and time of each entry, and next_offset, which is null after the last.",
    ],
    async holds(sandbox) {
      await ran(sandbox, "mkdir -p d/b && echo four > d/c && ln -s c d/a");
      const modified_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT/);
      const [a, b, c] = [
        { name: "a", type: "symlink", size: expect.any(Number), modified_at },
        { name: "b", type: "directory", size: expect.any(Number), modified_at },
        { name: "c", type: "file", size: 5, modified_at },
      ];
      expect(await ask("list_files", { sandbox, path: "d", limit: 2 })).toMatchObject({
        ...{ entries: [a, b], total: 3, next_offset: 2 },
      });
      const rest = await ask("list_files", { sandbox, path: "d", offset: 2 });
      expect(rest).toMatchObject({ entries: [c], next_offset: null });
    },
  },
  search_files: {
    says: [
      "Search below a directory of a running sandbox: for lines with a text or regular expression, for files by name, or both.",
      "Use it to find something without reading every file.",
      "Returns path, line number and line of each match.",
      "Binary files are skipped.",
    ],
    async holds(sandbox, { cwd }) {
      const files = "echo a+b > s/one.ts; printf 'x\\naab\\n' > s/deep/two.py; printf 'a+b\\0aab' > s/binary";
      await ran(sandbox, `mkdir -p s/deep; ${files}`);
      const found = async (args: object) => (await ask("search_files", { sandbox, path: "s", ...args })).matches;
      const one = { path: `${cwd}/s/one.ts`, line: 1, text: "a+b" };
      const two = { path: `${cwd}/s/deep/two.py`, line: 2, text: "aab" };
      expect(await found({ text: "a+b" })).toEqual([one]);
      expect(await found({ text: "a+b", regex: true })).toEqual([two]);
      expect(await found({ text: "b", glob: "*.py" })).toEqual([two]);
      expect(await found({ glob: "*.ts" })).toEqual([{ ...one, line: null, text: null }]);
    },
  },
  expose_port: {
    says: [
      "Give a port of a sandbox a URL.",
      "Use it to show a web server that runs inside: anyone who knows the URL and can connect to the host of its name reaches it without a key, while the sandbox runs and the server listens on that port.",
      "A name below localhost works on the sandboxes' host only.",
      "Returns the URL; a port that has one keeps it.",
    ],
    async holds(sandbox) {
      const { url } = await ask("expose_port", { sandbox, port: 8000 });
      // The names of this daemon are below localhost, and lead to this host.
      expect(new URL(url).hostname).toMatch(/\.localhost$/);
      expect(await ask("expose_port", { sandbox, port: 8000 })).toMatchObject({ url });
      const status = async () => {
        const asked = request(daemon().url, { headers: { host: new URL(url).host } }).end();
        const [answer]: IncomingMessage[] = await once(asked, "response");
        answer?.resume();
        return answer?.statusCode;
      };
      expect(await status()).toBe(502);
      await ran(sandbox, "exec python3 -m http.server 8000", { background: true });
      await eventually("the server listens", async () => (await status()) === 200);
      await stopped(sandbox);
      expect(await status()).not.toBe(200);
    },
  },
  set_network_policy: {
    says: [
      "Narrow what a running sandbox may reach, at once and for open connections too; its later runs and its forks keep it.",
      "Use it to close the network before you run code that you do not trust.",
      "A wider policy is refused, unless the person who set up this connection allowed it.",
      "Returns the policy in force.",
    ],
    // What each policy lets through, at once and on open connections, is in truth.test.ts and test/network/.
    async holds(sandbox) {
      const deny = { network_policy: { mode: "deny-all" } };
      expect(await ask("set_network_policy", { sandbox, ...deny })).toEqual({ sandbox, ...deny });
      const allow = { network_policy: { mode: "allow-all" } };
      expect(await refusal(client, "set_network_policy", { sandbox, ...allow })).toMatch(/wider|more than/);
      expect(await ask("fork_sandbox", { sandbox })).toMatchObject(deny);
      await stopped(sandbox);
      expect(await ask("resume_sandbox", { sandbox })).toMatchObject(deny);
      const open = await connect(daemon(), "2026-07-28", undo, "/mcp", {
        "sandkeep-policy-ceiling": "allow-all",
      });
      expect(await call(open, "set_network_policy", { sandbox, ...allow })).toEqual({ sandbox, ...allow });
    },
  },
};

test("every sentence of every tool is quoted here", async () => {
  const { tools } = await client.listTools();
  const said = Object.fromEntries(tools.map(({ name, description }) => [name, description]));
  const quoted = Object.fromEntries(Object.entries(claims).map(([name, { says }]) => [name, says.join(" ")]));
  expect(said).toEqual(quoted);
});

test("every tool says when to use it and what comes back", () => {
  for (const [name, { says }] of Object.entries(claims)) {
    expect(
      says.filter((sentence) => /^Use it /.test(sentence)),
      name,
    ).toHaveLength(1);
    expect(
      says.filter((sentence) => /^(Returns|Show one sandbox:) /.test(sentence)),
      name,
    ).toHaveLength(1);
  }
});

test.each(Object.entries(claims))("what %s says of itself is true", async (_, { holds }) => {
  const about = await made({ vcpus: 1 });
  await holds(about.sandbox, about);
  const { sandboxes } = await ask("list_sandboxes", { limit: 100 });
  for (const { sandbox } of sandboxes) await ask("delete_sandbox", { sandbox });
});
