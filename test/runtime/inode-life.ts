/**
 * A sandbox's life in generations. After each one every file's inode number is checked: paths with the same number must
 * be one file, and untouched files must have kept theirs.
 */

import { expect } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { dismiss, type RuntimeHost } from "../conformance/runtime/host.ts";
import { sh } from "../conformance/runtime/run.ts";
import { changedNumbers, collisionsIn, lookCommand, parseLook, type Seen } from "./inode-look.ts";

/** the entries of a root file system, by path; all of it, or those below some folders */
export async function lookAt(machine: Machine, where = "/"): Promise<Map<string, Seen>> {
  return parseLook((await sh(machine, lookCommand(where))).stdout);
}

export function expectNoCollision(seen: Map<string, Seen>, when: string): void {
  expect(collisionsIn(seen), `files with one number ${when}`).toEqual([]);
}

export function expectSameNumbers(before: Map<string, Seen>, after: Map<string, Seen>, when: string): void {
  expect(changedNumbers(before, after), `numbers that changed ${when}`).toEqual([]);
}

/** programs that rely on inode numbers; each leaves files that later generations must not mix up */
const programs = [
  // hard links, and copies of them by programs that find them by their numbers
  `mkdir -p links && cd links && for n in 1 2 3; do echo "$1 $n" > "$1-$n"; ln "$1-$n" "$1-$n-too"; done
   cd .. && rm -rf copies && mkdir copies && tar c links | tar x -C copies && cp -a links copies/cp
   for n in links/*; do cmp "$n" "copies/$n" && cmp "$n" "copies/cp/\${n#links/}" || exit 1; done`,
  "rsync -aH links/ rsynced/ && diff -r links rsynced",
  // a file that is replaced repeatedly
  'for n in 1 2 3 4 5; do echo "$1 $n" > state.tmp && mv state.tmp state || exit 1; done; [ "$(cat state)" = "$1 5" ]',
  `git init -q repo 2>/dev/null; cd repo && git config user.email a@b.c && git config user.name a && echo "$1" > "f$1" &&
   git add . && git commit -qm "$1" && git fsck --full --strict && [ -z "$(git status --porcelain)" ] &&
   rm -rf ../clone && git clone -q . ../clone`,
  `python3 -c "
import sqlite3
db = sqlite3.connect('base.db')
db.execute('pragma journal_mode=wal')
db.execute('create table if not exists t (n text)')
db.execute('insert into t values (?)', ('$1',))
db.commit()
assert db.execute('pragma integrity_check').fetchone() == ('ok',)
"`,
  // renamed, copied up from the image, deleted and made again
  `mkdir -p old && echo "$1" > "old/$1" && rm -rf new && mv old new && cp -al new old && echo "$1" >> /etc/issue &&
   chmod 755 /usr/bin/env && rm -rf gone && mkdir gone && touch "gone/$1"`,
];

/** programs that take seconds */
const slowPrograms = [
  "rm -rf venv && python3 -m venv --without-pip venv && venv/bin/python -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)'",
  `mkdir -p package && cd package && printf '{"name":"p","version":"1.0.0"}' > package.json && echo "$1" > index.js &&
   tgz=$(npm pack --silent --offline) && mkdir -p ../app && cd ../app && printf '{"name":"app","version":"1.0.0"}' > package.json &&
   npm install --silent --offline --no-audit --no-fund "../package/$tgz" && cmp node_modules/p/index.js ../package/index.js`,
  // its modules are hard links to its store
  `mkdir -p pnpm-app && cd pnpm-app && printf '{"name":"app","version":"1.0.0"}' > package.json &&
   cp ../package/p-1.0.0.tgz "p-$1.tgz" && pnpm add --silent --offline --store-dir ../pnpm-store \\
     --package-import-method hardlink "./p-$1.tgz" && cmp node_modules/p/index.js ../package/index.js &&
   [ "$(stat -c %h node_modules/p/index.js)" -ge 2 ]`,
];

export async function work(machine: Machine, generation: number, slow: boolean): Promise<void> {
  for (const program of slow ? [...programs, ...slowPrograms] : programs) {
    const { status, stdout, stderr } = await sh(
      machine,
      `mkdir -p /srv/life; cd /srv/life; set -- ${generation}\n${program}`,
    );
    expect(status.code, `${program}\n${stdout}${stderr}`).toBe(0);
  }
}

/** the way from one generation to the next */
export type Step = "stop" | "fork" | "live" | "restore";

/** the next machine; the one before it is gone, as is every unused snapshot */
export async function next(host: RuntimeHost, machine: Machine, step: Step, kept: string[]): Promise<Machine> {
  const { snapshots } = host.runtime;
  if (step === "stop" || step === "restore") {
    const { snapshot } = await machine.stop({ snapshot: true });
    if (!snapshot) throw new Error("The stop took no snapshot");
    kept.push(snapshot.id);
    await host.runtime.forget(machine.id);
  } else {
    kept.push((await machine.snapshot()).id);
    if (step === "fork") await sh(machine, "echo lost > /srv/life/after-the-snapshot");
    await dismiss(host, machine.id);
  }
  // Snapshots are deleted while their machines live on.
  const from = step === "restore" ? kept.at(-2) : kept.at(-1);
  const following = await host.boot({ root: { snapshot: from ?? kept.at(-1) ?? "" } });
  while (kept.length > 3) await snapshots.delete(kept.shift() ?? "");
  await snapshots.collect();
  return following;
}
