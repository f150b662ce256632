/** Every command of `sandkeep --help`, and every verb of its own help, prints JSON with --json. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { tarOf } from "../../harness/images/image-archives.ts";
import { TestRegistry } from "../../harness/images/test-registry.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
beforeEach((context) => needs(context, "root"));
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let folder = "";
let cli: Cli;
let places: NodeJS.ProcessEnv = {};

beforeAll(async () => {
  folder = await tempDir(undo);
  const { dataDir, runDir } = daemon();
  places = { SANDKEEP_DATA_DIR: dataDir, SANDKEEP_RUN_DIR: runDir, XDG_CONFIG_HOME: folder };
  cli = new Cli(daemon, places);
});

/** commands that print something else, which a program reads */
const others = {
  serve: "the daemon: SANDKEEP_LOG_FORMAT=json makes lines of JSON of its log",
  shell: "shows a terminal",
  mcp: "speaks JSON-RPC",
  "mcp config": "prints the configuration of a client",
  completion: "prints a script",
};

interface Form {
  args: string[];
  input?: string | Buffer;
  /** further variables */
  env?: NodeJS.ProcessEnv;
}

/** What is run, in this order. Each name stands for a form of the help. */
type Story = [form: string, run: Form | (() => Form | Promise<Form>)][];

/** the first value with this name that a command before has printed */
const seen: Record<string, string> = {};

const story: Story = [
  ["run", { args: ["run", "--keep", "--name", "demo", "--", "echo", "hi"] }],
  ["exec", { args: ["exec", "demo", "echo", "hi"] }],
  ["ls", { args: ["ls"] }],
  ["ps", { args: ["ps", "-a"] }],
  ["logs", { args: ["logs", "demo"] }],
  ["extend", { args: ["extend", "demo", "1m"] }],
  ["cp", { args: ["cp", "-", "demo:/tmp/a"], input: "content" }],
  ["snapshot create", { args: ["snapshot", "create", "demo", "--name", "good"] }],
  ["snapshot keep", { args: ["snapshot", "keep", "good"] }],
  ["snapshot ls", { args: ["snapshot", "ls"] }],
  ["fork", { args: ["fork", "demo", "copy"] }],
  ["restore", { args: ["restore", "demo", "good"] }],
  ["diff", { args: ["diff", "demo", "good"] }],
  ["port", { args: ["port", "demo", "3000"] }],
  ["events", { args: ["events", "--limit", "3"] }],
  ["top", { args: ["top"] }],
  ["egress", { args: ["egress", "demo"] }],
  ["drive create", { args: ["drive", "create", "d", "--size", "64m"] }],
  ["drive ls", { args: ["drive", "ls"] }],
  ["drive resize", { args: ["drive", "resize", "d", "--size", "65m"] }],
  ["drive fork", { args: ["drive", "fork", "d", "e"] }],
  ["drive rm", { args: ["drive", "rm", "e"] }],
  ["image pull", pull],
  ["image import", async () => ({ args: ["image", "import", "-", "--name", "mine"], input: await rootFiles() })],
  ["image ls", { args: ["image", "ls"] }],
  ["image inspect", { args: ["image", "inspect", "mine"] }],
  ["image history", { args: ["image", "history", "mine"] }],
  ["image alias", { args: ["image", "alias", "x:*", "mine"] }],
  ["image aliases", { args: ["image", "aliases"] }],
  ["image unalias", { args: ["image", "unalias", "x:*"] }],
  ["image rm", { args: ["image", "rm", "mine"] }],
  ["image prune", { args: ["image", "prune"] }],
  ["image build", async () => ({ args: ["image", "build", "-t", "built", await project()] })],
  ["image from-snapshot", { args: ["image", "from-snapshot", "good", "frozen"] }],
  ["image export", () => ({ args: ["image", "export", "pulled", "-o", join(folder, "built.tar")] })],
  ["registry login", { args: ["registry", "login", "registry.test", "--user", "me"], input: "secret\n" }],
  ["registry ls", { args: ["registry", "ls"] }],
  ["registry logout", { args: ["registry", "logout", "registry.test"] }],
  ["team ls", { args: ["team", "ls"] }],
  ["team create", { args: ["team", "create", "ml"] }],
  ["team rm", { args: ["team", "rm", "ml"] }],
  ["project ls", { args: ["project", "ls"] }],
  ["project create", { args: ["project", "create", "web"] }],
  ["key create", { args: ["key", "create", "ci"] }],
  ["key ls", { args: ["key", "ls"] }],
  ["key rename", () => ({ args: ["key", "rename", seen["key create"] ?? "", "robot"] })],
  ["quota", () => ({ args: ["quota", "--key", seen["key create"] ?? ""] })],
  ["quota set", () => ({ args: ["quota", "set", "--key", seen["key create"] ?? "", "--sandboxes", "3"] })],
  ["key rm", () => ({ args: ["key", "rm", seen["key create"] ?? ""] })],
  ["webhook create", { args: ["webhook", "create", "https://hook.invalid/"] }],
  ["webhook ls", { args: ["webhook", "ls"] }],
  ["webhook disable", () => ({ args: ["webhook", "disable", seen["webhook create"] ?? ""] })],
  ["webhook enable", () => ({ args: ["webhook", "enable", seen["webhook create"] ?? ""] })],
  ["webhook rotate", () => ({ args: ["webhook", "rotate", seen["webhook create"] ?? ""] })],
  ["webhook test", () => ({ args: ["webhook", "test", seen["webhook create"] ?? ""] })],
  ["webhook deliveries", () => ({ args: ["webhook", "deliveries", seen["webhook create"] ?? ""] })],
  [
    "webhook redeliver",
    () => ({ args: ["webhook", "redeliver", seen["webhook create"] ?? "", seen["webhook test"] ?? ""] }),
  ],
  ["webhook rm", () => ({ args: ["webhook", "rm", seen["webhook create"] ?? ""] })],
  ["audit", { args: ["audit"] }],
  ["open", { args: ["open"] }],
  ["env", { args: ["env", "vercel"] }],
  ["context create", () => ({ args: ["context", "create", "work", "--url", daemon().url], input: daemon().key })],
  ["context ls", { args: ["context", "ls"] }],
  ["context use", { args: ["context", "use", "default"] }],
  ["context rm", { args: ["context", "rm", "work"] }],
  ["doctor", { args: ["doctor"] }],
  ["upgrade", { args: ["upgrade"] }],
  ["snapshot rm", () => ({ args: ["snapshot", "rm", seen["snapshot create"] ?? ""] })],
  ["stop", { args: ["stop", "demo"] }],
  ["rm", { args: ["rm", "demo"] }],
  [
    "recover",
    async () => {
      await daemon().stop();
      return { args: ["recover"] };
    },
  ],
];

/** commands whose JSON says that the work failed, as nothing receives at the webhook's address */
const failing = ["webhook test", "webhook redeliver"];

test("the story has every verb of the help, and the help has the option", async () => {
  const named = new Set([...story.map(([form]) => form), ...Object.keys(others)]);
  expect([...named].filter((form) => !story.some(([each]) => each === form)).sort()).toEqual(
    Object.keys(others).sort(),
  );
  expect([...(await formsOfHelp())].sort()).toEqual([...named].sort());
});

test("each prints JSON and nothing else", async () => {
  for (const [form, run] of story) {
    const { args, input, env = {} } = typeof run === "function" ? await run() : run;
    // What follows the name of a sandbox may belong to a program.
    const verb = form.split(" ").length;
    const { code, stdout, stderr } = await new Cli(daemon, { ...places, ...env }).run(
      [...args.slice(0, verb), "--json", ...args.slice(verb)],
      input,
    );
    expect([form, code, stderr], stdout).toEqual([form, failing.includes(form) ? 1 : 0, expect.any(String)]);
    const values = stdout.trim().startsWith("{\n") ? [JSON.parse(stdout)] : stdout.trim().split("\n").map(read);
    seen[form] ??= values[0]?.id;
  }

  function read(line: string) {
    try {
      return JSON.parse(line);
    } catch {
      throw new Error(`This is not JSON: ${line}`);
    }
  }
});

/** such as "run" and "image ls", from the lines of usage */
async function formsOfHelp(): Promise<Set<string>> {
  const { stdout } = await cli.run(["--help"]);
  const commands = [...stdout.matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(([, name = ""]) => name);
  expect(commands.length).toBeGreaterThan(30);
  const forms = new Set<string>();
  for (const command of commands.filter((name) => name !== "help")) {
    const help = (await cli.run([command, "--help"])).stdout;
    expect([command, help.includes("--json")]).toEqual([command, !Object.hasOwn(others, command)]);
    const [usage = ""] = help.split("\n\n", 1);
    const found = usage.matchAll(new RegExp(`sandkeep ${command}(?: ([a-z][a-z-]*)(?=[ \n]|$))?`, "g"));
    for (const [, verb] of found) forms.add(verb === undefined ? command : `${command} ${verb}`);
  }
  return forms;
}

async function pull(): Promise<Form> {
  const registry = await new TestRegistry().listen();
  registry.image("1", [await rootFiles()]);
  const args = ["image", "pull", `${registry.host}/team/app:1`, "--name", "pulled"];
  return { args, env: { SANDKEEP_REGISTRY_HTTP: registry.host } };
}

function rootFiles(): Promise<Buffer> {
  return tarOf([{ name: "etc/motd", content: "hello" }]);
}

async function project(): Promise<string> {
  const path = join(folder, "project");
  await mkdir(path);
  await writeFile(join(path, "Dockerfile"), "FROM host\nENV A=b\n");
  return path;
}
