/**
 * The ledger: what this runtime has made on the host, written down before it is made and struck off after it is gone.
 *
 * A file of lines (src/protocols/ledger-line.ts). A line is in the kernel's hands when
 * append() returns, so it outlives the daemon; after a crash of the host the kernel's own resources are gone anyway and
 * directories are found on the disk. A last line that is cut short counts as not written: nothing was made yet. Any other
 * line that cannot be read is left out; the file is set aside as <name>.damaged, and the opener rebuilds it from the host.
 */

import {
  closeSync,
  copyFileSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Discrepancy } from "../../../core/ports/runtime.ts";
import { type HostResource, readLedgerLine, writeLedgerLine } from "../../../protocols/ledger-line.ts";
import { typed } from "../guest-wire/failure.ts";
import { readFormat } from "../storage/read-format.ts";

export class Ledger {
  readonly #resources = new Map<string, HostResource>();
  #fd: number;
  /** whether lines were lost, so that there may be more on the host than is written here */
  readonly isDamaged: boolean;

  /** reads what is outstanding and begins a fresh file with it */
  constructor(path: string) {
    this.isDamaged = existsSync(path) && !this.#replay(readFileSync(path, "utf8"));
    if (this.isDamaged) copyFileSync(path, `${path}.damaged`);
    const fresh = `${path}.new`;
    const outstanding = [...this.#resources.values()];
    writeFileSync(fresh, outstanding.length > 0 ? writeLedgerLine({ make: outstanding }) : "", { mode: 0o600 });
    renameSync(fresh, path);
    this.#fd = openSync(path, "a", 0o600);
  }

  make(resources: HostResource[]): void {
    this.#append(writeLedgerLine({ make: resources }));
    for (const resource of resources) this.#resources.set(key(resource), resource);
  }

  gone(resources: HostResource[]): void {
    try {
      this.#append(writeLedgerLine({ gone: resources }));
    } catch {
      // On disk it stays outstanding, and is found to be gone when the runtime is opened again.
    }
    for (const resource of resources) this.#resources.delete(key(resource));
  }

  outstanding(): HostResource[] {
    return [...this.#resources.values()];
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** a line that does not fit on the disk is taken back: half of one would spoil the next */
  #append(text: string): void {
    const size = fstatSync(this.#fd).size;
    try {
      if (writeSync(this.#fd, text) === Buffer.byteLength(text)) return;
    } catch (cause) {
      ftruncateSync(this.#fd, size);
      throw typed(cause, "Cannot write to the ledger");
    }
    ftruncateSync(this.#fd, size);
    throw new SandkeepError("no-room", "Cannot write to the ledger: the disk is full");
  }

  /** false when a line could not be read */
  #replay(text: string): boolean {
    const entries = text
      .split("\n")
      .slice(0, -1)
      .map((line) => readFormat(() => readLedgerLine(line)));
    for (const { make = [], gone = [] } of entries.filter((entry) => entry !== undefined)) {
      for (const resource of make) this.#resources.set(key(resource), resource);
      for (const resource of gone) this.#resources.delete(key(resource));
    }
    return entries.every((entry) => entry !== undefined);
  }
}

/** what is there against what is written down; both ways */
export function difference(written: HostResource[], real: HostResource[]): Discrepancy[] {
  const writtenKeys = new Set(written.map(key));
  const realKeys = new Set(real.map(key));
  return [
    ...real
      .filter((resource) => !writtenKeys.has(key(resource)))
      .map((resource) => problem(resource, "not in the ledger")),
    ...written.filter((resource) => !realKeys.has(key(resource))).map((resource) => problem(resource, "gone")),
  ];
}

function problem(resource: HostResource, what: Discrepancy["problem"]): Discrepancy {
  return { kind: resource.kind, name: resource.name, problem: what };
}

function key(resource: HostResource): string {
  return `${resource.kind} ${resource.name}`;
}
