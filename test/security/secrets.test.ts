/** What a sandbox must not be able to see: the host's homes, keys and configuration, the daemon's own files and secrets. */

import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { root } from "../harness/harness.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { install, run, shell, users } from "./inside.ts";

/** appears in the daemon's environment and in a file of the host's home, and nowhere inside */
const secret = `secret-${randomUUID()}`;

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;
let neighbour: Machine;
let probe: string;

beforeAll(async () => {
  process.env.SANDKEEP_TEST_SECRET = secret;
  undo.defer(() => void delete process.env.SANDKEEP_TEST_SECRET);
  const planted = join(homedir(), `.${secret}`);
  await writeFile(planted, secret, { mode: 0o644 });
  undo.defer(() => rm(planted, { force: true }));
  host = await withRuntime(undo);
  machine = await host.boot();
  neighbour = await host.boot();
  probe = await install(machine, "probe");
});

describe.each(users)("to %s inside", (user) => {
  test("the environment holds only what was given", async () => {
    const { out } = await run(machine, user, [probe, "environment"], { env: { GIVEN: "yes" } });
    const variables = out.replace("n/a: ", "").trim().split(" ");
    const known = /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|TERM|PWD|HOSTNAME|GIVEN|NODE_\w+)=/;
    expect(variables.filter((variable) => !known.test(variable))).toEqual([]);
    expect(variables).toContain("GIVEN=yes");
  });

  test("no process reveals the host by its arguments or environment", async () => {
    const lines = await shell(
      machine,
      user,
      "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'",
    );
    expect(lines).not.toContain(secret);
    for (const path of [root, host.directory, process.execPath]) expect(lines).not.toContain(path);
  });

  test("no mount names the host's directories", async () => {
    for (const path of [host.directory, root, homedir() === "/" ? root : `${homedir()}/`])
      expect((await run(machine, user, [probe, "mounts-show", path])).out).toMatch(/^closed/);
  });

  test("the host's home directories are not visible", async () => {
    const files = await shell(machine, user, "ls -aR /root /home 2>/dev/null; true");
    expect(files).not.toContain(secret);
    expect(files).not.toMatch(/\.ssh|\.npmrc|\.docker|\.aws|\.kube|\.netrc|\.git-credentials|\.bash_history/);
  });

  test.each(["/etc/shadow", "/etc/gshadow", "/etc/machine-id", "/etc/fstab", "/etc/resolv.conf", "/etc/hosts"])(
    "%s is not the host's",
    async (path) => {
      const inside = (await run(machine, user, ["cat", path])).out;
      if (!existsSync(path)) return;
      const lines = readFileSync(path, "utf8").split("\n");
      const own = lines.filter((line) => tellsOfTheHost(line));
      expect(own.filter((line) => inside.includes(line))).toEqual([]);
    },
  );

  test("keys and configuration of the host's services are not visible", async () => {
    const found = await shell(
      machine,
      user,
      "find /etc/ssh /etc/ssl/private /etc/sudoers.d /etc/cron.d /etc/systemd /etc/NetworkManager /etc/wireguard " +
        "-type f \\( -name '*key*' -o -name '*.pem' -o -name '*.conf' -o -name '*.nmconnection' \\) 2>/dev/null; true",
    );
    const readable = found.split("\n").filter((path) => path.includes("key") && !path.endsWith(".pub"));
    expect(readable).toEqual([]);
  });

  test("state, logs and spools of the host are not visible", async () => {
    const listing = await shell(
      machine,
      user,
      "ls -A /var/log /var/spool/cron /var/mail /run /boot /mnt /media /srv 2>/dev/null; true",
    );
    expect(listing).not.toMatch(/\.sock|journal|syslog|crontabs|vmlinuz|initrd|dbus|docker|containerd/);
  });

  test("the host's name is not visible", async () => {
    expect(
      await shell(machine, user, "uname -n; cat /proc/sys/kernel/hostname; cat /etc/hostname; true"),
    ).not.toContain(hostname().length > 3 ? hostname() : "\0");
  });

  test("the daemon's directory, the agent's socket, the journal and the ledger have no path inside", async () => {
    for (const path of [host.directory, root, "/run/sandkeep", "/var/lib/sandkeep"])
      expect((await run(machine, user, ["test", "-e", path])).code).not.toBe(0);
    expect(await shell(machine, user, "find / -xdev -type s 2>/dev/null; true")).toBe("");
    expect(
      await shell(
        machine,
        user,
        "find /run /var /tmp -name '*.journal' -o -name 'ledger*' -o -name 'machine.json' 2>/dev/null; true",
      ),
    ).toBe("");
  });

  test("another sandbox's files, processes and messages are out of reach", async () => {
    await neighbour.files().write("/var/tmp/mine", Buffer.from(secret), { mode: 0o666 });
    const sleeper = await neighbour.exec({ id: randomUUID(), argv: ["sleep", "61.61"], user, cwd: "/" });
    await shell(neighbour, user, "ipcmk -M 64 >/dev/null; touch /dev/shm/of-neighbour-$(id -u)");
    expect((await run(machine, user, ["cat", "/var/tmp/mine"])).code).not.toBe(0);
    expect((await run(machine, user, [probe, "processes"])).out).not.toContain("61.61");
    for (const name of ["shared-memory-of-others", "shared-files-of-others"])
      expect((await run(machine, user, [probe, name])).out).toMatch(/^closed/);
    await sleeper.signal(9);
    await sleeper.exited;
  });

  test("two sandboxes share no user id outside", async () => {
    const other = await install(neighbour, "probe");
    const ids = [
      await run(machine, user, [probe, "ids-user-map"]),
      await run(neighbour, user, [other, "ids-user-map"]),
    ];
    const [ours = 0, theirs = 0] = ids.map(({ out }) => Number(/outside (\d+)/.exec(out)?.[1]));
    expect(Math.abs(ours - theirs)).toBeGreaterThanOrEqual(65536);
  });
});

/** A line with only names that every machine has reveals nothing. */
function tellsOfTheHost(line: string): boolean {
  return line.trim() !== "" && !line.startsWith("#") && !/localhost|^ff02|^[\w-]+:[*!]*:/.test(line);
}
