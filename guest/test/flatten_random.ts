/**
 * Makes chains of overlay layers by doing random things on really mounted overlays, flattens ranges of them, and checks
 * that the kernel shows the same tree with the flattened layer as with those it replaces.
 *
 *   unshare -m node flatten_random.ts TOOL DIRECTORY SEED ROUNDS plain|btrfs
 *
 * Mounts and works in DIRECTORY, in a mount namespace of its own, so that nothing outlives it. Prints how much it did.
 */

import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  lchownSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

const [tool = "", directory = "", seedText = "", roundsText = "", kind = ""] = process.argv.slice(2);
const random = generator(Number(seedText));
type Step = (root: string) => void;
let operations = 0;
let comparisons = 0;

function main(): void {
  run("mount", "--make-rprivate", "/");
  if (kind === "btrfs") {
    const image = join(directory, "image");
    writeFileSync(image, "");
    truncateSync(image, 512 << 20);
    run("mkfs.btrfs", "-q", image);
    mkdirSync(join(directory, "fs"));
    run("mount", "-o", "loop", image, join(directory, "fs"));
  } else {
    mkdirSync(join(directory, "fs"));
    run("mount", "-t", "tmpfs", "tmpfs", join(directory, "fs"));
  }
  for (const [name, steps] of Object.entries(chains)) playRound(join(directory, "fs", name), steps);
  for (let round = 0; round < Number(roundsText); round++) {
    const later = Array.from({ length: 2 + below(4) }, () => (root: string) => change(root, 5 + below(40)));
    playRound(join(directory, "fs", String(round)), [(root) => change(root, 40), ...later]);
  }
  console.log(`${operations} operations, ${comparisons} comparisons`);
}

function playRound(root: string, steps: Step[]): void {
  const merged = join(root, "merged");
  mkdirSync(merged, { recursive: true });
  const layers: string[] = [];
  const depth = steps.length;
  for (const [i, step] of steps.entries()) {
    const layer = makeLayer(root, `layer${i}`);
    if (i === 0) {
      step(layer);
    } else {
      const work = join(layer, "..", `work${i}`);
      mkdirSync(work);
      mount(merged, layers, `upperdir=${layer},workdir=${work},`);
      step(merged);
      run("umount", merged);
    }
    layers.unshift(layer);
  }
  const wanted = dump(merged, layers);
  // Every range of two layers or more; the last layer stands for an image and stays below what is flattened.
  for (const [from, to] of ranges(depth - 1)) {
    const flat = makeLayer(root, `flat${from}-${to}`);
    run(tool, "flatten", flat, ...layers.slice(from, to));
    const got = dump(merged, [...layers.slice(0, from), flat, ...layers.slice(to)]);
    comparisons++;
    if (wanted !== got) {
      throw new Error(`layers ${from} to ${to} of ${depth} in ${root}:\n${difference(wanted, got)}`);
    }
  }
  rmSync(root, { recursive: true });
}

function* ranges(end: number): Generator<[from: number, to: number]> {
  for (let from = 0; from < end; from++) for (let to = from + 2; to <= end; to++) yield [from, to];
}

function makeLayer(root: string, name: string): string {
  const volume = join(root, name);
  if (kind === "btrfs") run("btrfs", "-q", "subvolume", "create", volume);
  else mkdirSync(volume);
  mkdirSync(join(volume, "fs"));
  return join(volume, "fs");
}

function mount(at: string, layers: string[], options: string): void {
  const settings = `lowerdir=${layers.join(":")},${options}redirect_dir=on,metacopy=off,index=off,xino=off`;
  run("mount", "-t", "overlay", "overlay", "-o", settings, at);
}

function dump(at: string, layers: string[]): string {
  mount(at, layers, "ro,");
  const text = run(tool, "dump", at);
  run("umount", at);
  return text;
}

/** Chains for what chance seldom brings about: what is done to the lowest layer, then what is done in each above it. */
const chains: Record<string, Step[]> = {
  "a directory moved out of one that was moved into a new one": [
    (root) => tree(root, "x/b/c/file"),
    (root) => {
      mkdirSync(join(root, "a"));
      renameSync(join(root, "x/b"), join(root, "a/b"));
    },
    (root) => renameSync(join(root, "a/b/c"), join(root, "foo")),
    (root) => tree(root, "foo/other"),
  ],
  "a directory moved again in each layer": [
    (root) => tree(root, "a/b/file", "d/e"),
    (root) => renameSync(join(root, "a/b"), join(root, "d/b")),
    (root) => renameSync(join(root, "d"), join(root, "f")),
    (root) => renameSync(join(root, "f/b"), join(root, "a/c")),
    (root) => renameSync(join(root, "a"), join(root, "f/a")),
  ],
  "a moved directory that is removed and made anew": [
    (root) => tree(root, "a/b/file"),
    (root) => renameSync(join(root, "a"), join(root, "z")),
    (root) => rmSync(join(root, "z/b"), { recursive: true }),
    (root) => tree(root, "z/b/new", "a/b/new"),
  ],
};

function tree(root: string, ...files: string[]): void {
  for (const file of files) {
    mkdirSync(join(root, dirname(file)), { recursive: true });
    writeFileSync(join(root, file), file);
  }
}

/** does random things to a tree; what cannot be done where it falls is left out */
function change(root: string, count: number): void {
  for (let i = 0; i < count; i++) {
    const all = paths(root);
    const directories = all.filter((path) => lstatSync(path).isDirectory());
    const any = pick(all) ?? join(root, "nothing");
    const place = join(pick(directories) ?? root, pick(["a", "b", "c", "d", "e", "f"]) ?? "a");
    const operation = pick(Object.values(changes));
    try {
      operation?.(place, any, i);
      operations++;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "";
      if (!["EEXIST", "ENOTDIR", "EISDIR", "ENOTEMPTY", "EINVAL", "EPERM", "ELOOP", "ENOENT"].includes(code))
        throw error;
    }
  }
}

const changes: Record<string, (place: string, any: string, n: number) => void> = {
  write: (place, _any, n) => write(place, `content ${n} ${below(1e6)}`),
  writeLarge: (place, _any, n) => write(place, Buffer.alloc(below(300_000), n)),
  append: (_place, any) => lstatSync(any).isFile() && appendFileSync(any, "more"),
  sparse: (place) => {
    write(place, "start");
    truncateSync(place, 1_000_000 + below(1000));
  },
  directory: (place) => mkdirSync(place),
  deep: (place) => {
    mkdirSync(join(place, "a", "b"), { recursive: true });
    writeFileSync(join(place, "a", "b", "c"), "deep");
  },
  rename: (place, any) => renameSync(any, place),
  renameAgain: (place, any) => renameSync(any, place),
  renameMore: (place, any) => renameSync(any, place),
  remove: (_place, any) => rmSync(any, { recursive: true }),
  replaceDirectory: (_place, any) => {
    rmSync(any, { recursive: true });
    mkdirSync(any);
    writeFileSync(join(any, "new"), "in a directory that hides the one below");
  },
  replaceWithFile: (_place, any) => {
    rmSync(any, { recursive: true });
    writeFileSync(any, "was something else");
  },
  link: (place, any) => !lstatSync(any).isDirectory() && linkSync(any, place),
  symlink: (place) => symlinkSync("../a/b", place),
  fifo: (place) => !lstatSync(place, { throwIfNoEntry: false }) && run("mkfifo", place),
  mode: (_place, any) => !lstatSync(any).isSymbolicLink() && chmodSync(any, 0o500 + below(0o277)),
  owner: (_place, any) => lchownSync(any, below(2000), below(2000)),
  time: (_place, any) => lutimesSync(any, below(1e9), below(1e9)),
  xattr: (_place, any, n) => {
    const st = lstatSync(any);
    if (st.isFile() || st.isDirectory()) run(tool, "xattr", any, "user.note", `n${n}`);
  },
};

/** a new file or new content of one; never a FIFO, which would wait for a reader */
function write(path: string, data: string | Buffer): void {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === false) return;
  writeFileSync(path, data);
}

function paths(root: string): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(root, { withFileTypes: true, recursive: true })) {
    found.push(join(entry.parentPath, entry.name));
  }
  return found.sort();
}

function difference(wanted: string, got: string): string {
  const [a, b] = [new Set(wanted.split("\n")), new Set(got.split("\n"))];
  const missing = [...a].filter((line) => !b.has(line)).map((line) => `- ${line}`);
  const extra = [...b].filter((line) => !a.has(line)).map((line) => `+ ${line}`);
  return [...missing, ...extra].join("\n");
}

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: "utf8", maxBuffer: 64 << 20 });
}

function pick<T>(from: readonly T[]): T | undefined {
  return from[below(from.length)];
}

/** a whole number from 0 to end - 1 */
function below(end: number): number {
  return end < 1 ? 0 : Math.floor(random() * end);
}

/** mulberry32: the same numbers for the same seed, everywhere */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

main();
