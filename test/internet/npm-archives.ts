/** A registry of npm packages for a server of test/internet/: the archives that a folder has. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { join } from "node:path";

interface Described {
  name: string;
  version: string;
}

export class NpmArchives {
  readonly #folder: string;
  /** the document of a package, by its name */
  readonly #documents = new Map<string, { versions: Record<string, object>; name: string; "dist-tags": object }>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async open(folder: string): Promise<NpmArchives> {
    const archives = new NpmArchives(folder);
    for (const file of await readdir(folder)) if (file.endsWith(".tgz")) archives.#add(file);
    return archives;
  }

  /** whether the path is one of the registry */
  answer(path: string, response: ServerResponse): boolean {
    const name = decodeURIComponent(path.slice(1));
    const document = this.#documents.get(name);
    if (document) response.setHeader("content-type", "application/json").end(JSON.stringify(document));
    else if (/^\/archives\/[\w.-]+\.tgz$/.test(path)) {
      createReadStream(join(this.#folder, path.slice("/archives/".length))).pipe(response);
    } else return false;
    return true;
  }

  #add(file: string): void {
    const path = join(this.#folder, file);
    const text = execFileSync("tar", ["-xzOf", path, "package/package.json"], { encoding: "utf8" });
    const description = JSON.parse(text) as Described;
    const integrity = `sha512-${createHash("sha512").update(readFileSync(path)).digest("base64")}`;
    const dist = { tarball: `https://registry.npmjs.org/archives/${file}`, integrity };
    const { name, version } = description;
    const found = this.#documents.get(name) ?? { name, "dist-tags": {}, versions: {} };
    // A version that another package names for one kind of machine is not the newest.
    if (!version.includes("-")) found["dist-tags"] = { latest: version };
    found.versions[version] = { ...description, dist };
    this.#documents.set(name, found);
  }
}
