/** Builds a Debian image with mmdebstrap, from the package sources that this host uses. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";
import { type ImageStores, type ImportOptions, importRootfs } from "../oci/import.ts";
import { etcFiles, parseOsRelease } from "./etc.ts";
import type { ImageRecord } from "./images.ts";

export interface DebianOptions extends ImportOptions {
  /** default that of the host */
  suite?: string | undefined;
  /** packages besides those that every sandbox has */
  packages?: string[];
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
  const bootstrap = start(mmdebstrapArguments(suite, packages, sources), options.progress);
  try {
    const ours = Object.entries(etcFiles("", { ...release, VERSION_CODENAME: suite }, stores.conventions));
    const etc = Object.fromEntries(ours.filter(([path]) => path.startsWith("apt/")));
    return await importRootfs(stores, bootstrap.output, { ...options, name: options.name ?? "debian", etc });
  } finally {
    bootstrap.end();
  }
}

function mmdebstrapArguments(suite: string, packages: string[], sources: string[]): string[] {
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

interface Bootstrap {
  /** the tar; ends in an error when mmdebstrap does */
  output: AsyncIterable<Uint8Array>;
  end(): void;
}

function start(args: string[], progress: ImportOptions["progress"]): Bootstrap {
  const child = spawn("mmdebstrap", args, { stdio: ["ignore", "pipe", "pipe"] });
  let last = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== "");
    for (const line of lines) progress?.(line);
    last = lines.at(-1) ?? last;
  });
  const failure = new Promise<SandkeepError | undefined>((resolve) => {
    child.once("error", (cause) => {
      const isMissing = "code" in cause && cause.code === "ENOENT";
      const why = isMissing ? `mmdebstrap is not installed\nhint: ${howToGet}` : cause.message;
      resolve(new SandkeepError("unsupported", `Cannot build the image: ${why}`, { cause }));
    });
    child.once("close", (code) => {
      const why = `mmdebstrap ended with ${code ?? "a signal"}: ${last}`;
      resolve(code === 0 ? undefined : new SandkeepError("internal", `Cannot build the image: ${why}`));
    });
  });
  async function* output(): AsyncGenerator<Uint8Array> {
    yield* child.stdout;
    const error = await failure;
    if (error) throw error;
  }
  return { output: output(), end: () => void child.kill() };
}
