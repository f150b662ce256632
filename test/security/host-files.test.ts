/**
 * Of the host's /usr, sandboxes see only what every user of the host may read. The rest is hidden, also from root
 * inside. The test plants files of its own in a folder below /usr/share.
 */

import { randomUUID } from "node:crypto";
import { chmod, chown, copyFile, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { closedIn, hostView } from "../../src/runtime/linux/images/host-view.ts";
import { eventually } from "../harness/harness.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { run, shell, users } from "./inside.ts";

const secret = `secret-${randomUUID()}`;
const folder = `/usr/share/sandkeep-test-${randomUUID()}`;

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;

beforeAll(async () => {
  await mkdir(folder, { mode: 0o755 });
  undo.defer(() => rm(folder, { recursive: true, force: true }));
  await plant("open", 0o644);
  await plant("root-only", 0o600);
  await plant("of-a-group", 0o640);
  await mkdir(join(folder, "closed"), { mode: 0o700 });
  await plant("closed/inside", 0o644);
  await mkdir(join(folder, "unlisted"), { mode: 0o711 });
  await chmod(join(folder, "unlisted"), 0o711);
  await plant("unlisted/inside", 0o644);
  await mkdir(join(folder, "deep/er"), { recursive: true });
  await plant("deep/er/root-only", 0o600);
  await plant("deep/er/open", 0o644);
  await chown(join(folder, "deep"), 1000, 1000);
  await symlink("root-only", join(folder, "link"));
  // Others may run it but not read it, like sudo on some distributions.
  await copyFile("/usr/bin/id", join(folder, "unreadable-program"));
  await chmod(join(folder, "unreadable-program"), 0o4711);
  // The search that a prepared store has of the host was before these files were here.
  host = await withRuntime(undo, { fromNothing: true });
  machine = await host.boot();
});

describe.each(users)("to %s inside", (user) => {
  test.each(["root-only", "of-a-group", "closed", "closed/inside", "unlisted", "unlisted/inside", "deep/er/root-only"])(
    "%s is not there",
    async (path) => {
      expect((await run(machine, user, ["cat", join(folder, path)])).out).not.toContain(secret);
      expect(await shell(machine, user, `test -e ${join(folder, path)} && echo there || echo gone`)).toContain("gone");
    },
  );

  test("no listing shows hidden files, and a link to one leads nowhere", async () => {
    const names = (await shell(machine, user, `cd ${folder} && find . | sort`)).trim().split("\n");
    expect(names).toEqual([".", "./deep", "./deep/er", "./deep/er/open", "./link", "./open", "./unreadable-program"]);
    expect((await run(machine, user, ["cat", join(folder, "link")])).out).not.toContain(secret);
  });

  test("files that all users may read are as on the host, and so are the directories around hidden files", async () => {
    for (const path of ["open", "deep/er/open"])
      expect((await run(machine, user, ["cat", join(folder, path)])).out).toContain(secret);
    expect(await shell(machine, user, `stat -c '%u %a' ${folder}/deep ${folder}/deep/er`)).toBe("1000 755\n0 755\n");
  });

  test("a program that others may run but not read runs", async () => {
    expect((await run(machine, user, [join(folder, "unreadable-program"), "-r", "-u"])).out).toMatch(/^\d+\s*$/);
  });

  test("no file that the host closes to others is visible", async () => {
    const { masked } = await hostView();
    expect(masked.length).toBeGreaterThan(0);
    const there = masked.map((path) => `test ! -e '${path}' || echo '${path}'`).join("\n");
    // these are the sandbox's own
    const own = ["/var/lib/dpkg/triggers/Lock"];
    const shown = (await shell(machine, user, there)).split("\n").filter((path) => path !== "" && !own.includes(path));
    expect(shown).toEqual([]);
  });
});

test("programs find their locale in an archive, which all machines share and none can change for another", async () => {
  const archive = "/usr/lib/locale/locale-archive";
  expect(await shell(machine, "1000", "locale charmap; localedef --list-archive")).toMatch(/^UTF-8\n(.*\n)*C\.utf8\n/);
  expect(await shell(machine, "1000", `stat -c '%a %U:%G' ${archive}; stat -c %a /usr/lib`)).toBe(
    "644 root:root\n755\n",
  );
  expect(await shell(machine, "root", `: > ${archive}; stat -c %s ${archive}; locale charmap`)).toBe("0\nUTF-8\n");
  const other = await host.boot();
  expect(await shell(other, "1000", "localedef --list-archive")).toContain("C.utf8\n");
});

test("root inside can put something of its own in a hidden file's place", async () => {
  const path = join(folder, "root-only");
  expect(
    await shell(machine, "root", `echo own > ${path} && cat ${path} && rm ${path} && ls ${path} 2>&1 || true`),
  ).toMatch(/^own\nls: cannot access/);
});

test("a file that is closed later is hidden from machines that boot, resume or leave the pool after the search", async () => {
  const first = await host.boot();
  await chmod(join(folder, "open"), 0o600);
  await rename(join(folder, "deep/er/root-only"), join(folder, "deep/er/moved"));
  try {
    await host.runtime.searchHost();
    const { snapshot } = await first.stop({ snapshot: true });
    const later = [await host.boot()];
    if (snapshot) later.push(await host.boot({ root: { snapshot: snapshot.id } }));
    expect(later.length).toBe(2);
    for (const each of later) {
      const names = (await shell(each, "root", `cd ${folder} && find . -type f | sort`)).trim().split("\n");
      expect(names).toEqual(["./deep/er/open", "./unreadable-program"]);
    }
  } finally {
    await chmod(join(folder, "open"), 0o644);
    await rename(join(folder, "deep/er/moved"), join(folder, "deep/er/root-only"));
    await host.runtime.searchHost();
  }
});

test("the search does not fail if files come and go while it runs", async () => {
  const stop = new AbortController();
  const churn = (async () => {
    while (!stop.signal.aborted) {
      await plant("churn", 0o600);
      await rm(join(folder, "churn"), { force: true });
    }
  })();
  try {
    const found = await eventually("the search ends", () => closedIn("/usr"));
    expect(found).toContain(`${folder.slice("/usr/".length)}/root-only`);
  } finally {
    stop.abort();
    await churn;
  }
});

async function plant(name: string, mode: number): Promise<void> {
  await writeFile(join(folder, name), `${secret}\n`);
  await chmod(join(folder, name), mode);
}
