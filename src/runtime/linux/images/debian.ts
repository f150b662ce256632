/**
 * Builds a Debian image with mmdebstrap, from the package sources that this host uses.
 *
 * mmdebstrap mounts /proc, /sys and more into the folder that it fills, and leaves these mounts behind when it is ended.
 * So it runs in namespaces of its own: its mounts exist only there, and all its processes end with the first one.
 */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";
import { isTagAlive, processTag } from "../layers/claims.ts";
import { type ImageStores, type ImportOptions, importRootfs } from "../oci/import.ts";
import { type EtcFile, etcFiles, parseOsRelease } from "./etc.ts";
import type { ImageRecord } from "./images.ts";

export interface DebianOptions extends ImportOptions {
  /** default that of the host */
  suite?: string | undefined;
  /** packages besides those that every sandbox has */
  packages?: string[];
  /** symbolic links, each path with its target; from our own recipes, so they are words that a shell takes as they are */
  links?: Readonly<Record<string, string>> | undefined;
  /** files below /etc, by their path there */
  etc?: Readonly<Record<string, EtcFile>> | undefined;
}

/** Debian packages of the programs that every sandbox has */
export const debianPackages = [
  "bash",
  "bzip2",
  "ca-certificates",
  "coreutils",
  "curl",
  "findutils",
  "git",
  "gzip",
  "iproute2",
  "less",
  "nano",
  "openssl",
  "passwd",
  "procps",
  "python3",
  "python3-pip",
  "python3-venv",
  "sudo",
  "tar",
  "unzip",
  "xz-utils",
  "zip",
];

export async function buildDebian(stores: ImageStores, options: DebianOptions = {}): Promise<ImageRecord> {
  const release = parseOsRelease(await readFile("/usr/lib/os-release", "utf8").catch(() => ""));
  const suite = options.suite ?? release.VERSION_CODENAME ?? "stable";
  const packages = [...debianPackages, ...(options.packages ?? [])];
  if (![suite, ...packages].every((word) => /^[a-z0-9][a-z0-9.+-]*$/.test(word))) {
    throw new SandkeepError("invalid", "Cannot build the image: the name of a suite or package is not valid");
  }
  const sources = options.suite === undefined ? await hostSources() : [];
  stores.requireRoom?.("bring in an image");
  const folder = await workFolder();
  const bootstrap = start(mmdebstrapArguments(suite, packages, sources, options.links), folder, options.progress);
  stores.beforeClose?.(() => bootstrap.end());
  try {
    const ours = Object.entries(etcFiles("", { ...release, VERSION_CODENAME: suite }, stores.conventions));
    const etc = { ...Object.fromEntries(ours.filter(([path]) => path.startsWith("apt/"))), ...options.etc };
    return await importRootfs(stores, bootstrap.output, { ...options, name: options.name ?? "debian", etc });
  } finally {
    await bootstrap.end();
  }
}

const folderPrefix = "sandkeep-debian-";

/**
 * Makes the folder that mmdebstrap works in, and removes those of builds that were killed. It is not in the data
 * directory, because apt downloads as a user who must not look in there.
 */
async function workFolder(): Promise<string> {
  const all = tmpdir();
  for (const name of await readdir(all).catch((): string[] => [])) {
    if (!name.startsWith(folderPrefix) || isTagAlive(name.slice(folderPrefix.length))) continue;
    const path = join(all, name);
    // Every user of this host may make a folder of such a name.
    const isOurs = await lstat(path).then(
      (facts) => facts.isDirectory() && facts.uid === process.getuid?.(),
      () => false,
    );
    if (isOurs) await rm(path, { recursive: true, force: true });
  }
  const folder = join(all, `${folderPrefix}${processTag()}`);
  await mkdir(folder, { mode: 0o755 });
  return folder;
}

function mmdebstrapArguments(
  suite: string,
  packages: string[],
  sources: string[],
  links: DebianOptions["links"] = {},
): string[] {
  return [
    "--variant=minbase",
    "--format=tar",
    // Every sandbox has its own device nodes; programs that need the package lists fetch them again.
    "--skip=output/dev",
    `--include=${packages.join(",")}`,
    // As in the default image, pip installs without asking to keep the distribution's packages apart.
    '--customize-hook=rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
    // The host's own sources, names and name servers stay out of the image.
    '--customize-hook=rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/resolv.conf "$1"/etc/hostname',
    ...Object.entries(links).map(([path, target]) => `--customize-hook=ln -sfn ${target} "$1"${path}`),
    suite,
    "-",
    ...sources,
  ];
}

/** the files with this host's package sources; empty means the distribution's public archive */
async function hostSources(): Promise<string[]> {
  const folder = "/etc/apt/sources.list.d";
  const names = await readdir(folder).catch((): string[] => []);
  const files = [...names.filter((name) => /\.(list|sources)$/.test(name)).map((name) => join(folder, name))];
  const list = "/etc/apt/sources.list";
  return existsSync(list) ? [list, ...files] : files;
}

const howToGet = "apt-get install -y --no-install-recommends mmdebstrap";

const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/** the exit code of unshare if there is no such program */
const isMissing = 127;

interface Bootstrap {
  /** the tar; ends in an error when mmdebstrap does */
  output: AsyncIterable<Uint8Array>;
  /** resolves when its processes have ended and its folder is removed */
  end(): Promise<void>;
}

function start(args: string[], folder: string, progress: ImportOptions["progress"]): Bootstrap {
  const child = spawn("unshare", [...namespaces, "mmdebstrap", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, TMPDIR: folder },
    // A Ctrl-C is for this process, which ends that one; and mmdebstrap signals its whole group when it fails.
    detached: true,
  });
  let last = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== "");
    for (const line of lines) progress?.(line);
    last = lines.at(-1) ?? last;
  });
  const failure = new Promise<SandkeepError | undefined>((resolve) => {
    child.once("error", (cause) => {
      resolve(new SandkeepError("unsupported", `Cannot build the image: ${cause.message}`, { cause }));
    });
    child.once("close", (code) => {
      const why = `mmdebstrap ended with ${code ?? "a signal"}: ${last}`;
      const missing = `mmdebstrap is not installed\nhint: ${howToGet}`;
      if (code === 0) resolve(undefined);
      else if (code === isMissing) resolve(new SandkeepError("unsupported", `Cannot build the image: ${missing}`));
      else resolve(new SandkeepError("internal", `Cannot build the image: ${why}`));
    });
  });
  async function* output(): AsyncGenerator<Uint8Array> {
    yield* child.stdout;
    const error = await failure;
    if (error) throw error;
  }
  let ended: Promise<void> | undefined;
  const end = async () => {
    child.kill("SIGKILL");
    // It closes only when nothing is left to read.
    child.stdout.destroy();
    await failure;
    await rm(folder, { recursive: true, force: true });
  };
  return {
    output: output(),
    end() {
      ended ??= end();
      return ended;
    },
  };
}
