/** Watching files, against the guest's real file code. */

import { spawn } from "node:child_process";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { all, refusal, useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import { eventually, tempDir } from "../../../../test/harness/harness.ts";
import type { FileChange } from "../../../core/ports/runtime.ts";
import { batch } from "./file-watch.ts";
import { filesOver } from "./files.ts";

const guest = useFileGuest();
const files = filesOver(guest.connect);

describe("watch", () => {
  async function watching(directory: string, recursive: boolean) {
    const abort = new AbortController();
    const seen: string[] = [];
    const changes = await files.watch(directory, { recursive, signal: abort.signal });
    const ended = (async () => {
      for await (const change of changes) seen.push(sentence(change, directory));
    })();
    onTestFinished(async () => {
      abort.abort();
      await ended;
    });
    return { seen, ended, sees: (what: string) => eventually(`${what} in ${seen}`, () => seen.includes(what)) };
  }
  function sentence(change: FileChange, directory: string): string {
    const to = change.to === undefined ? "" : ` -> ${change.to.slice(directory.length)}`;
    return `${change.kind} ${change.path.slice(directory.length)}${to}${change.directory ? " (dir)" : ""}`;
  }

  test("reports files that are made, written, changed and removed in a directory", async () => {
    const directory = await tempDir();
    const { seen, sees } = await watching(directory, false);
    await fs.writeFile(join(directory, "a"), "1");
    await fs.chmod(join(directory, "a"), 0o600);
    await fs.mkdir(join(directory, "d"));
    await fs.writeFile(join(directory, "d/unseen"), "");
    await fs.rm(join(directory, "a"));
    await sees("removed /a");
    expect(seen).toEqual(["created /a", "written /a", "metadata /a", "created /d (dir)", "removed /a"]);
  });

  test("reports a file that the guest writes as made or written, and its temporary files not atall", async () => {
    const directory = await tempDir();
    const { seen, sees } = await watching(directory, true);
    await files.write(join(directory, "a"), Buffer.from("1"));
    await files.write(join(directory, "a"), Buffer.from("22"));
    await files.write(join(directory, "d/empty"), Buffer.alloc(0), { parents: true });
    await files.remove(join(directory, "a"));
    await sees("removed /a");
    expect(new Set(seen)).toEqual(
      new Set(["created /a", "written /a", "created /d (dir)", "created /d/empty", "removed /a"]),
    );
  });

  test("reports a move as one change, a move out as one without a target, and a move in as created", async () => {
    const directory = await tempDir();
    const elsewhere = await tempDir();
    await fs.writeFile(join(directory, "a"), "");
    const { seen, sees } = await watching(directory, false);
    await fs.rename(join(directory, "a"), join(directory, "b"));
    await fs.rename(join(directory, "b"), join(elsewhere, "c"));
    await sees("moved /b");
    await fs.rename(join(elsewhere, "c"), join(directory, "d"));
    await sees("created /d");
    expect(seen).toEqual(["moved /a -> /b", "moved /b", "created /d"]);
  });

  test("follows directories that appear, move and disappear below", async () => {
    const directory = await tempDir();
    const elsewhere = await tempDir();
    await fs.mkdir(join(directory, "old/inner"), { recursive: true });
    const { seen, sees } = await watching(directory, true);
    await fs.writeFile(join(directory, "old/inner/a"), "");
    await sees("created /old/inner/a");
    await fs.mkdir(join(directory, "x/y/z"), { recursive: true });
    await fs.writeFile(join(directory, "x/y/z/b"), "");
    await sees("created /x/y/z/b");
    await fs.rename(join(directory, "old"), join(directory, "new"));
    await fs.writeFile(join(directory, "new/inner/c"), "");
    await sees("created /new/inner/c");
    await fs.rename(join(directory, "x"), join(elsewhere, "x"));
    await sees("moved /x (dir)");
    await fs.writeFile(join(elsewhere, "x/y/unseen"), "");
    await fs.rm(join(directory, "new"), { recursive: true });
    await sees("removed /new (dir)");
    expect(seen.filter((change) => change.includes("unseen"))).toEqual([]);
    expect(seen).toContain("moved /old -> /new (dir)");
  });

  test("a directory can be named by a symlink", async () => {
    const directory = await tempDir();
    await fs.mkdir(join(directory, "real/inner"), { recursive: true });
    await fs.symlink("real", join(directory, "link"));
    const { sees } = await watching(join(directory, "link"), true);
    await fs.writeFile(join(directory, "real/inner/a"), "");
    await sees("created /inner/a");
  });

  test("a file can be watched, and its end ends the watch", async () => {
    const path = join(await tempDir(), "a");
    await fs.writeFile(path, "");
    const changes = await files.watch(path);
    await fs.writeFile(path, "1");
    await fs.rm(path);
    const kinds = (await all(changes)).map((change) => change.kind);
    expect(kinds[0]).toBe("written");
    expect(kinds.at(-1)).toBe("removed");
  });

  test("a storm of changes leaves the event loop its turns, however many watch", async () => {
    const directory = await tempDir();
    await fs.writeFile(join(directory, "x"), "");
    const watches = await Promise.all(Array.from({ length: 8 }, () => watching(directory, true)));
    let [before, most, isOver] = [0, 0, false];
    const turn = () => {
      const all = watches.reduce((sum, { seen }) => sum + seen.length, 0);
      most = Math.max(most, all - before);
      before = all;
      if (!isOver) setImmediate(turn);
    };
    turn();
    const renames = 'for (let i = 0; i < 2000; i++) { fs.renameSync("x", "y"); fs.renameSync("y", "x"); }';
    spawn(process.execPath, ["-e", renames], { cwd: directory });
    await Promise.all(watches.map(({ seen }) => eventually("4000 changes", () => seen.length === 4000)));
    isOver = true;
    // Each watch has its first batch without a turn.
    expect(most).toBeLessThanOrEqual((watches.length + 4) * batch);
    expect(watches[0]?.seen.slice(-2)).toEqual(["moved /x -> /y", "moved /y -> /x"]);
  });

  test("a path that cannot be watched gives an error before any change", async () => {
    expect(await refusal(files.watch("/nowhere"))).toMatch(/^not-found: Cannot watch "\/nowhere": /);
    await expect(files.watch("/", { signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
  });
});
