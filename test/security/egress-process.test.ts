/** The egress process, as an attacker inside it would find it: its user, what it sees, and what it cannot do. */

import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { daemonOfFile } from "../harness/daemon.ts";
import { compileGuest } from "../harness/guest/guest-program.ts";
import { eventually, tempDir } from "../harness/harness.ts";
import { egressCommand } from "../harness/package.ts";
import { processesOf } from "../harness/traces.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();

test("is a user of its own, without a capability, and behind a filter", async () => {
  const status = readFileSync(`/proc/${await egressPid()}/status`, "utf8");
  const field = (name: string) => new RegExp(`^${name}:[ \\t]*(.*)$`, "m").exec(status)?.[1]?.split(/\s+/);
  const [uid] = field("Uid") ?? [];
  expect(Number(uid)).toBeGreaterThan(0x6000_0000);
  expect(field("Uid")).toEqual([uid, uid, uid, uid]);
  expect(field("Gid")).toEqual([uid, uid, uid, uid]);
  expect((field("Groups") ?? []).filter((group) => group !== "")).toEqual([]);
  for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
    expect(field(set)).toEqual(["0000000000000000"]);
  expect(field("NoNewPrivs")).toEqual(["1"]);
  expect(field("Seccomp")).toEqual(["2"]);
});

test("its filter leaves threads and the internet, and refuses processes, namespaces and other sockets", async () => {
  const program = join(await tempDir(), "egress_filter_test");
  const sources = ["test/egress_filter_test", "egress/egress_filter", "confinement/allow_list"];
  await compileGuest(program, sources, []);
  expect((await run(program)).stdout.trim().split("\n")).toEqual([
    "a thread: allowed",
    "the internet: allowed",
    "the host's addresses: allowed",
    "a pair of sockets: ENOSYS",
    "a process: EPERM",
    "a process in a namespace: EPERM",
    "a namespace: ENOSYS",
    "a thread in a user namespace: EPERM",
    "a unix socket: EAFNOSUPPORT",
    "packets: EAFNOSUPPORT",
    "crypto sockets: EAFNOSUPPORT",
    "tracing: ENOSYS",
    "io_uring: ENOSYS",
    "a mount: ENOSYS",
  ]);
});

test("has no descriptor of a folder or of the host, except its error log", async () => {
  const folder = `/proc/${await egressPid()}/fd`;
  const open = readdirSync(folder).map((name) => targetOf(join(folder, name)));
  const files = open.filter(
    (path) => path.startsWith("/") && !path.startsWith("/dev/") && !path.includes("launcher.log"),
  );
  expect(files.filter((path) => !path.endsWith("/egress.json"))).toEqual([]);
});

describe("with its credentials, in its root", () => {
  /** the folder of its program */
  const code = dirname(egressCommand()[1] ?? "");

  test("only Node, its libraries, our code and its own logs are visible of the host", async () => {
    const seen = await inside(`console.log(JSON.stringify([fs.readdirSync("/"), fs.readdirSync("/etc")]))`);
    const [top, etc] = JSON.parse(seen);
    const node = readlinkSync(`/proc/${daemon().pid}/exe`);
    const own = [code, node, daemon().dataDir].map((path) => path.split("/")[1]);
    expect(top.filter((name: string) => !/^(dev|etc|usr|lib\d*)$/.test(name)).toSorted()).toEqual(
      [...new Set(own.filter((name) => name !== "usr"))].toSorted(),
    );
    expect(etc).toEqual(["ld.so.cache"]);
  });

  test.each([
    ["/etc/shadow", () => "/etc/shadow"],
    ["/etc/passwd", () => "/etc/passwd"],
    ["/proc", () => "/proc/1/environ"],
    ["the secret key", () => join(daemon().dataDir, "secret.key")],
    ["the database", () => join(daemon().dataDir, "sandkeep.db")],
  ])("%s cannot be read", async (_, path) => {
    expect(existsSync(path())).toBe(true);
    expect(await inside(attempt(`fs.readFileSync(${JSON.stringify(path())})`))).toMatch(/^(ENOENT|EACCES)$/);
  });

  test("the launcher's socket is not reachable", async () => {
    const [instance = ""] = readdirSync(daemon().runDir);
    const path = join(daemon().runDir, instance, "launch.sock");
    const connect = `require("net").connect(${JSON.stringify(path)}).on("connect", () => console.log("open"))
      .on("error", (error) => console.log(error.code))`;
    expect(await inside(connect)).toBe("ENOENT");
  });

  test("only logs of machines can be written", async () => {
    for (const path of ["/x", "/usr/lib/x", join(code, "x"), join(code, "../package.json"), "/dev/x"]) {
      expect(await inside(attempt(`fs.writeFileSync(${JSON.stringify(path)}, "")`)), path).toMatch(
        /^(EROFS|EACCES|EPERM)$/,
      );
    }
  });
});

/** the output of a program that runs as the egress process does, without its filter */
async function inside(code: string): Promise<string> {
  const pid = await egressPid();
  const uid = /^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  const become = `process.setgroups([]); process.setgid(${uid}); process.setuid(${uid}); const fs = require("fs");`;
  const node = realpathSync(process.execPath);
  const enter = [`--mount=/proc/${pid}/ns/mnt`, `--root=/proc/${pid}/root`, node, "-e", `${become}${code}`];
  return (await run("nsenter", enter)).stdout.trim();
}

function attempt(code: string): string {
  return `try { ${code}; console.log("done") } catch (error) { console.log(error.code) }`;
}

function egressPid(): Promise<number> {
  return eventually("the egress process runs", () =>
    processesOf(daemon().dataDir).find((pid) =>
      readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("sandkeep-egress"),
    ),
  );
}

/** the target of a descriptor, as the kernel shows it; nothing if it is closed by now */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return "";
  }
}
