/** The folders of `sandkeep run -v`: copied into the sandbox, and their changes brought back. */

import type { Daemon } from "../client/daemon.ts";
import type { CommandContext } from "../command.ts";
import { CliError } from "../errors.ts";
import { plain } from "../print/plain.ts";
import { bringBack, type Copied, copyIn, type Folder } from "./folder-sync.ts";
import { RemoteFiles } from "./remote-files.ts";

export interface Volume {
  local: string;
  /** path in the sandbox; relative to where programs start */
  remote: string;
}

/** The folders that a sandbox gets copies of. */
export class Folders {
  readonly #files: RemoteFiles;
  readonly #folders: { folder: Folder; before: Copied }[];

  constructor(daemon: Daemon, session: { id: string; cwd: string }, volumes: Volume[]) {
    this.#files = new RemoteFiles(daemon, session, { what: "copy a folder" });
    this.#folders = volumes.map(({ local, remote }) => ({
      folder: { local, remote: this.#files.absolute(remote) },
      before: { tree: new Map(), at: 0 },
    }));
  }

  get first(): string | undefined {
    return this.#folders[0]?.folder.remote;
  }

  async copyIn(context: CommandContext): Promise<void> {
    for (const each of this.#folders) each.before = await copyIn(each.folder, this.#files, context);
  }

  /** false if something could not be brought back, of which each has a line */
  async bringBack(sandbox: string, { warn }: CommandContext, signal: AbortSignal): Promise<boolean> {
    let isAll = true;
    for (const { folder, before } of this.#folders) {
      const { written, removed, skipped, kept } = await bringBack(folder, before, this.#files, signal).catch(
        (cause) => {
          const why = cause instanceof Error ? cause.message : cause;
          const hint = `the sandbox "${sandbox}" stays; sandkeep cp copies from "${folder.remote}"`;
          throw new CliError(`Cannot bring back the changes of "${folder.local}": ${why}`, hint);
        },
      );
      warn(`Brought back to "${folder.local}": ${written} written, ${removed} removed`);
      for (const path of skipped) warn(`Left "${plain(path)}" as it is: the directory there has other files`);
      for (const path of kept) warn(`Left "${plain(path)}" as it is: it was changed here, too`);
      isAll &&= skipped.length + kept.length === 0;
    }
    return isAll;
  }
}
