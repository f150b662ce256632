/** The system call filter by itself: against its tables in user space, and under real programs. */

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { root, tempDir } from "../harness/harness.ts";
import { needs } from "../runner/needs.ts";
import { nativeProgram } from "./inside.ts";

test("the filter answers every number and argument as its tables say", async () => {
  const { status, stdout } = spawnSync(await nativeProgram("seccomp_test"), { encoding: "utf8" });
  expect(stdout).toContain(" 0 mismatches");
  expect(status).toBe(0);
});

test("the sanitizers find nothing in the filter's builder", async () => {
  const { status, stderr } = spawnSync(await nativeProgram("seccomp_test-sanitize"), { encoding: "utf8" });
  expect(stderr).toBe("");
  expect(status).toBe(0);
});

describe("behind the filter", () => {
  /** shell lines that exit with 0, and a pattern of their output */
  const lines: [name: string, line: string, prints: RegExp][] = [
    ["bash", "for i in 1 2 3; do echo $i | cat; done", /3/],
    ["node with workers, children and servers", nodeLine(), /child worker listening/],
    ["python3 with children and a server", `python3 -c '${pythonLine()}'`, /\[1, 2\] hi/],
    ["git", "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -qm m --allow-empty && git log", /m/],
    ["gcc and make", cLine(), /made/],
    ["dpkg-deb", debLine(), /x\.deb/],
    ["strace", "strace -f -o /dev/null true && echo traced", /traced/],
    ["sudo", "sudo -n id -u", /^0\n$/],
    ["a limit of core dumps that stays, without complaint", "ulimit -c 0 && grep core /proc/self/limits", / 1 +1 /],
  ];

  test.for(lines)("%s works", async ([name, line, prints], context) => {
    const command = name.split(" ")[0] ?? "";
    needs(context, "root");
    if (["strace", "sudo", "git", "gcc"].includes(command)) needs(context, `the command ${command}`);
    const runner = await nativeProgram("seccomp_run");
    const PATH = `${join(root, "node_modules/.bin")}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
    const { status, stdout, stderr } = spawnSync(runner, ["bash", "-c", line], {
      cwd: await tempDir(),
      encoding: "utf8",
      env: { PATH, HOME: "/nonexistent" },
    });
    expect(stderr).toBe("");
    expect(stdout).toMatch(prints);
    expect(status).toBe(0);
  });

  test("sudo gains nothing once no_new_privs is set", async (context) => {
    needs(context, "root", "the command sudo");
    const { status } = spawnSync(await nativeProgram("seccomp_run"), ["-n", "-u", "1000", "sudo", "-n", "true"]);
    expect(status).not.toBe(0);
  });

  test("a 32-bit system call kills its program", async (context) => {
    needs(context, "root");
    const runner = await nativeProgram("seccomp_run");
    const { stdout } = spawnSync(runner, [await nativeProgram("probe"), "abi-i386"], { encoding: "utf8" });
    expect(stdout).toMatch(process.arch === "x64" ? /^closed: killed/ : /^$/);
  });
});

function nodeLine(): string {
  return `node -e '
    const { execFileSync } = require("node:child_process");
    process.stdout.write(execFileSync("echo", ["-n", "child "]));
    new (require("node:worker_threads").Worker)("", { eval: true }).on("exit", () => {
      process.stdout.write("worker ");
      require("node:http").createServer().listen(0, function () { console.log("listening"); this.close(); });
    });'`;
}

function pythonLine(): string {
  return `import multiprocessing, socket, subprocess
pool = multiprocessing.Pool(2)
socket.create_server(("127.0.0.1", 0)).close()
print(pool.map(abs, [-1, -2]), subprocess.check_output(["echo", "hi"]).decode())`;
}

function cLine(): string {
  return `printf '#include <pthread.h>\\n#include <stdio.h>\\nstatic void *f(void *x) { return x; }
int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0) || puts("made") < 0; }\\n' > a.c
    printf 'all: a\\n\\t@./a\\na: a.c\\n\\t@gcc -o a a.c\\n' > Makefile && make`;
}

function debLine(): string {
  return `mkdir -p x/DEBIAN && printf 'Package: x\\nVersion: 1\\nArchitecture: all\\nMaintainer: a\\nDescription: b\\n' > x/DEBIAN/control
    dpkg-deb --root-owner-group -b x x.deb`;
}
