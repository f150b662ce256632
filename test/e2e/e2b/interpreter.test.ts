/** The code interpreter through E2B's own SDK, unmodified, on the default image with the host's ipykernel. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Context, type OutputMessage, type Result, Sandbox } from "@e2b/code-interpreter";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandboxOf, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);
const made = sandboxOf(() => Sandbox.create({ envs: { GLOBAL: "g" }, timeoutMs: 600_000 }));
const sandbox = () => made() as Sandbox;

test("Python code returns its last value, and the next code finds its variables", async () => {
  const first = await sandbox().runCode("x = 20 + 1\nprint('out')\nimport sys; print('err', file=sys.stderr)\nx * 2");
  expect(first.error).toBeUndefined();
  expect(first).toMatchObject({ text: "42", logs: { stdout: ["out\n"], stderr: ["err\n"] } });
  const second = await sandbox().runCode("f'{x} ü€'");
  expect(second.text).toBe("21 ü€");
  expect(second.executionCount).toBe((first.executionCount ?? 0) + 1);
});

test("code finds its sandbox's id, and a package that is installed later, but no module of the interpreter", async () => {
  const { text } = await sandbox().runCode("import os; os.environ['E2B_SANDBOX_ID']");
  expect(text).toBe(sandbox().sandboxId);
  const install = `import site; open(site.getusersitepackages() + "/later.py", "w").write("v = 'here'")`;
  expect((await sandbox().runCode(`${install}\nimport later; later.v`)).text).toBe("here");
  expect((await sandbox().runCode("import contexts")).error).toMatchObject({ name: "ModuleNotFoundError" });
});

test("an error has a name, a value and a traceback", async () => {
  const { error, results } = await sandbox().runCode("def f():\n  return 1 / 0\nf()");
  expect(results).toEqual([]);
  expect(error).toMatchObject({ name: "ZeroDivisionError", value: "division by zero" });
  expect(error?.traceback).toContain("return 1 / 0");
});

test("output arrives while the code runs", async () => {
  const seen: string[] = [];
  const code = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n'over'";
  const { text } = await sandbox().runCode(code, {
    onStdout: async ({ line }: OutputMessage) => {
      seen.push(line);
      // The code ends only after this.
      await sandbox().files.write("/home/user/go", "");
    },
    onResult: (result: Result) => void seen.push(`result ${result.text}`),
  });
  expect([text, seen]).toEqual(["over", ["begun\n", "result over"]]);
});

test("a result has every format that the code shows", async () => {
  const formats = {
    "text/plain": "plain",
    "text/html": "<b>h</b>",
    "text/markdown": "*m*",
    "image/svg+xml": "<svg/>",
    "image/png": "iVBORw0KGgo=",
    "image/jpeg": "/9j/4A==",
    "application/pdf": "JVBERi0=",
    "text/latex": "$x$",
    "application/json": { a: [1] },
    "application/javascript": "alert(1)",
    "application/vnd.e2b.chart.v1+json": { type: "line", title: "t", elements: [] },
    "application/x-own": "own",
  };
  const show = `from IPython.display import display\nimport json\ndisplay(json.loads(${JSON.stringify(JSON.stringify(formats))}), raw=True)`;
  const { results } = await sandbox().runCode(`${show}\n'main'`);
  expect(results[0]).toMatchObject({
    ...{ isMainResult: false, text: "plain", html: "<b>h</b>", markdown: "*m*", svg: "<svg/>", png: "iVBORw0KGgo=" },
    ...{ jpeg: "/9j/4A==", pdf: "JVBERi0=", latex: "$x$", json: { a: [1] }, javascript: "alert(1)" },
    chart: { type: "line", title: "t", elements: [] },
    // The SDK itself shows other formats only here.
    raw: { extra: { "application/x-own": "own" } },
  });
  expect(results[1]).toMatchObject({ isMainResult: true, text: "main" });
});

test("a list or a dictionary that is shown is JSON too, unless JSON has no form for it", async () => {
  const shown = async (code: string) => (await sandbox().runCode(code)).results[0]?.json;
  expect(await shown("{'a': [1, 2.5, float('nan'), None, (True, 'x')], 1: {None: 'y'}}")).toEqual({
    a: [1, 2.5, null, null, [true, "x"]],
    1: { null: "y" },
  });
  expect(await shown("import datetime; [datetime.date(2020, 1, 2)]")).toEqual(["2020-01-02"]);
  for (const code of ["[object()]", "a = []; a.append(a); a", "list(range(200_000))", "'text'", "{1, 2}"]) {
    expect([code, await shown(code)]).toEqual([code, undefined]);
  }
});

test("variables of a call are there for that call only, in every language", async () => {
  const envs = { OWN: "o 'w' n", GLOBAL: "other" };
  const codes = {
    python: "import os; print(os.environ.get('OWN'), os.environ['GLOBAL'])",
    javascript: "console.log(process.env.OWN, process.env.GLOBAL)",
    bash: 'env | grep -q ^OWN= || OWN=none; echo "$OWN $GLOBAL"; test "$OWN" != none || unset OWN',
  };
  for (const [language, code] of Object.entries(codes)) {
    const run = async (options: object) =>
      (await sandbox().runCode(code, { language, ...options })).logs.stdout.join("");
    expect(await run({ envs })).toBe("o 'w' n other\n");
    expect(await run({})).toMatch(/^(None|undefined|none) g\n$/);
  }
});

test("contexts are made, listed, restarted and removed, and each has its own variables", async () => {
  const context = await sandbox().createCodeContext({ cwd: "/tmp" });
  expect(context).toEqual({ id: expect.any(String), language: "python", cwd: "/tmp" });
  const run = (code: string, chosen: Context) => sandbox().runCode(code, { context: chosen });
  await sandbox().runCode("mine = 1");
  expect((await run("import os; mine = 2; os.getcwd()", context)).text).toBe("/tmp");
  expect((await sandbox().runCode("mine")).text).toBe("1");
  const all = await sandbox().listCodeContexts();
  expect(all).toContainEqual(context);
  expect(all).toContainEqual({ id: expect.any(String), language: "python", cwd: "/home/user" });
  await sandbox().restartCodeContext(context);
  expect(await run("mine", context)).toMatchObject({ error: { name: "NameError" }, executionCount: 1 });
  await sandbox().removeCodeContext(context.id);
  expect(await sandbox().listCodeContexts()).not.toContainEqual(context);
  await expect(run("1", context)).rejects.toMatchObject({ name: "NotFoundError" });
  await expect(sandbox().removeCodeContext(context)).rejects.toMatchObject({ name: "NotFoundError" });
  await expect(sandbox().createCodeContext({ cwd: "/nowhere" })).rejects.toThrow("400");
});

test("JavaScript and TypeScript keep declarations, await at the top, import modules and report errors", async () => {
  const js = (code: string) => sandbox().runCode(code, { language: "js" });
  expect((await js("const a = await Promise.resolve({ b: [1] }); console.log('out'); a")).text).toBe("{ b: [ 1 ] }");
  expect((await js("const a = 2; a + 1")).text).toBe("3");
  expect((await js("(async () => a * 21)()")).text).toBe("42");
  expect((await js('import { join as j } from "node:path"; j("a", "b")')).text).toBe("a/b");
  expect((await js("undefined")).results).toEqual([]);
  const failed = await js("function f() { throw new TypeError('wrong') }; f()");
  expect(failed.error).toMatchObject({ name: "TypeError", value: "wrong" });
  expect(failed.error?.traceback).toContain("at f ");
  const html = "({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<i>' }) })";
  expect((await js(html)).results[0]?.html).toBe("<i>");
  const typed = "enum E { A = 7 }; const n: number = E.A; n";
  expect((await sandbox().runCode(typed, { language: "ts" })).text).toBe("7");
});

test("Bash keeps variables and the directory, and its exit status is an error", async () => {
  const bash = (code: string) => sandbox().runCode(code, { language: "bash" });
  expect((await bash("cd /usr; V=kept; f() { echo $V; }; echo e >&2")).logs.stderr).toEqual(["e\n"]);
  expect((await bash("pwd; f; false")).logs.stdout.join("")).toBe("/usr\nkept\n");
  expect((await bash("false")).error).toMatchObject({ value: "1" });
  expect((await bash("exit 3")).error).toMatchObject({ value: "3" });
  expect((await bash("echo again")).logs.stdout).toEqual(["again\n"]);
});

test("other languages run if the image has a Jupyter kernel for them, and are refused otherwise", async () => {
  await expect(sandbox().runCode("1", { language: "r" })).rejects.toThrow("400");
  const spec = { language: "R", argv: ["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"] };
  await sandbox().files.write("/home/user/.local/share/jupyter/kernels/ir/kernel.json", JSON.stringify(spec));
  expect((await sandbox().runCode("6 * 7", { language: "r" })).text).toBe("42");
});

test("a kernel of the image gets TCP that nothing outside reaches, its own variables, and interrupts as it wants them", async () => {
  const folder = "/home/user/.local/share/jupyter/kernels/own";
  const spec = {
    language: "Java",
    argv: ["python3", "{resource_dir}/tcp_kernel.py", "{resource_dir}", "{connection_file}"],
    interrupt_mode: "message",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Jupyter's own placeholder
    env: { OWN: "at ${HOME}" },
  };
  const kernel = readFileSync(join(import.meta.dirname, "python/tcp_kernel.py"), "utf8");
  await sandbox().files.write([
    { path: `${folder}/kernel.json`, data: JSON.stringify(spec) },
    { path: `${folder}/tcp_kernel.py`, data: kernel },
  ]);
  const java = (code: string, options: object = {}) => sandbox().runCode(code, { language: "java", ...options });
  const [ip, port, ...rest] = ((await java("where")).text ?? "").split(" ");
  expect(ip).toMatch(/^127\.(?!0\.0\.1$)/);
  expect(rest.join(" ")).toBe(`${folder} at /home/user`);
  const headers = { "e2b-sandbox-id": sandbox().sandboxId, "e2b-sandbox-port": port ?? "" };
  expect(await (await fetch(daemon().url, { headers })).json()).toMatchObject({ port: Number(port), code: 502 });
  await expect(java("wait", { timeoutMs: 300 })).rejects.toMatchObject({ name: "TimeoutError" });
  // It is the same process: the address would be another.
  expect((await java("where")).text).toContain(`${ip} ${port} `);
  expect((await java("a", { envs: { A: "b" } })).text).toBe("a");
  await sandbox().files.write(`${folder}/kernel.json`, JSON.stringify({ language: "none", argv: ["/not/here"] }));
  await expect(sandbox().runCode("a", { language: "none", envs: { A: "b" } })).rejects.toThrow("400");
  const missing = sandbox().createCodeContext({ language: "none" });
  await expect(missing).rejects.toThrow("500");
});

test.for([
  ["python", "kept = 1", "while True: pass", "print(kept)"],
  ["javascript", "let kept = 1", "for (;;) {}", "console.log(kept)"],
  ["javascript", "let kept = 1", "await new Promise(() => {})", "console.log(kept)"],
  ["javascript", "let kept = 1", "new Promise(() => {})", "console.log(kept)"],
  ["bash", "kept=1", "while :; do sleep 0.05; done", "echo $kept"],
  // The first interrupt comes to a program that ignores it.
  ["bash", "kept=1", "bash -c 'trap \"\" INT; sleep 1'; while :; do sleep 0.05; done", "echo $kept"],
] as const)("%s code that takes too long is interrupted, and its context stays", async ([language, set, loop, get]) => {
  await sandbox().runCode(set, { language });
  await expect(sandbox().runCode(loop, { language, timeoutMs: 300 })).rejects.toMatchObject({ name: "TimeoutError" });
  expect((await sandbox().runCode(get, { language })).logs.stdout).toEqual(["1\n"]);
});

test("a kernel that dies is reported, and the next code gets a new one", async () => {
  expect((await sandbox().runCode("import os; os._exit(3)")).error).toMatchObject({ name: "KernelDied" });
  expect(await sandbox().runCode("1")).toMatchObject({ text: "1", executionCount: 1 });
  // All kernels of Python have one parent.
  const forker = "import os; os.kill(os.getppid(), 9); import time; time.sleep(60)";
  expect((await sandbox().runCode(forker)).error).toMatchObject({ name: "KernelDied" });
  expect(await sandbox().runCode("2")).toMatchObject({ text: "2", executionCount: 1 });
});

test("code needs the sandbox's access token, and contexts need the token for traffic that is not public", async () => {
  const { url } = daemon();
  const closed = await Sandbox.create({ network: { allowPublicTraffic: false } });
  const ask = (of: Sandbox, path: string, headers: Record<string, string> = {}) =>
    fetch(`${url}${path}`, {
      method: path === "/execute" ? "POST" : "GET",
      headers: { "E2b-Sandbox-Id": of.sandboxId, "E2b-Sandbox-Port": "49999", ...headers },
      ...(path === "/execute" && { body: JSON.stringify({ code: "1" }) }),
    }).then(({ status }) => status);
  expect(await ask(sandbox(), "/execute")).toBe(401);
  expect(await ask(sandbox(), "/%65xecute")).toBe(401);
  expect(await ask(sandbox(), "/execute", { "x-access-token": tokenOf(closed) })).toBe(401);
  expect(await ask(sandbox(), "/execute", { "x-access-token": tokenOf(sandbox()) })).toBe(200);
  expect(await ask(sandbox(), "/contexts")).toBe(200);
  expect(await ask(closed, "/contexts")).toBe(403);
  expect(await ask(closed, "/execute", { "x-access-token": tokenOf(closed) })).toBe(403);
  expect((await closed.runCode("2 + 2")).text).toBe("4");
  await closed.kill();
  await expect(closed.runCode("1")).rejects.toMatchObject({ name: "TimeoutError" });
  expect(await ask(closed, "/contexts")).toBe(502);
});

test("code that prints nothing has lines that keep its connection alive, and none of them is empty", async () => {
  const answer = await fetch(`${daemon().url}/execute`, {
    method: "POST",
    headers: {
      "E2b-Sandbox-Id": sandbox().sandboxId,
      "E2b-Sandbox-Port": "49999",
      "X-Access-Token": tokenOf(sandbox()),
    },
    body: JSON.stringify({ code: "import os, time\nwhile not os.path.exists('on'): time.sleep(0.01)" }),
  });
  let lines = "";
  for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    lines += piece;
    if (piece.includes("keepalive")) await sandbox().files.write("on", "");
  }
  const kinds = lines
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line).type);
  expect([...new Set(kinds)]).toEqual(["number_of_executions", "keepalive", "end_of_execution"]);
});

test("variables outlive the daemon, and requests that cannot be read are refused with a sentence", async () => {
  await sandbox().runCode("outlives = 'yes'");
  await daemon().kill9();
  await daemon().start();
  // The SDK sends no token for contexts, and the new daemon knows none yet.
  expect((await sandbox().listCodeContexts()).length).toBeGreaterThan(1);
  expect((await sandbox().runCode("outlives")).text).toBe("yes");
  const bodies = ["{", "[]", "{}", '{"code":1}', '{"code":"1","context_id":"a","language":"python"}'];
  for (const body of [...bodies, '{"code":"1","env_vars":{"A B":"c"}}', '{"code":"1","env_vars":{"A":1}}']) {
    const answer = await fetch(`${daemon().url}/execute`, {
      method: "POST",
      headers: {
        "E2b-Sandbox-Id": sandbox().sandboxId,
        "E2b-Sandbox-Port": "49999",
        "X-Access-Token": tokenOf(sandbox()),
      },
      body,
    });
    expect([body, answer.status, await answer.text()]).toEqual([body, 400, expect.stringMatching(/^Cannot .*[^.]$/)]);
  }
});

test("code runs in a sandbox of the base template too, and goes on after a pause", async () => {
  const base = await Sandbox.create("base");
  expect((await base.runCode("v = 'here'; v")).text).toBe("here");
  await base.pause();
  await expect(base.runCode("1")).rejects.toMatchObject({ name: "TimeoutError" });
  const again = await Sandbox.connect(base.sandboxId);
  expect((await again.runCode("v")).text).toBe("here");
  await again.commands.run("pkill -f [r]unpy; while pgrep -f [r]unpy; do sleep 0.05; done");
  expect(await again.runCode("2")).toMatchObject({ text: "2", executionCount: 1 });
  await again.kill();
});

/** the SDK keeps it for itself */
function tokenOf(of: Sandbox): string {
  return (of as unknown as { envdAccessToken: string }).envdAccessToken;
}
