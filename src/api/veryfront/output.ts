/** A command's output in one answer: the last part of each stream if there is more than fits. */

import type { OutputChunk } from "../../core/ports/runtime.ts";

/** most bytes of each stream */
const longest = 1 << 20;

export interface Output {
  stdout: string;
  stderr: string;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
}

export async function outputOf(chunks: AsyncIterable<OutputChunk>, most = longest): Promise<Output> {
  const [stdout, stderr] = [new Tail(most), new Tail(most)];
  for await (const { stream, data, dropped } of chunks) {
    const tail = stream === "stderr" ? stderr : stdout;
    // The dropped bytes may have been of either stream.
    if (dropped) stdout.truncated = stderr.truncated = true;
    tail.add(data);
  }
  return {
    stdout: stdout.text(),
    stderr: stderr.text(),
    stdout_truncated: stdout.truncated,
    stderr_truncated: stderr.truncated,
  };
}

/** the last bytes of a stream */
class Tail {
  truncated = false;
  readonly #most: number;
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(data: Uint8Array): void {
    this.#parts.push(data);
    this.#length += data.length;
    for (let first = this.#parts[0]; first && this.#length - first.length >= this.#most; first = this.#parts[0]) {
      this.#parts.shift();
      this.#length -= first.length;
      this.truncated = true;
    }
  }

  text(): string {
    const all = Buffer.concat(this.#parts);
    let from = Math.max(0, all.length - this.#most);
    if (from > 0) this.truncated = true;
    // Do not begin in the middle of a character.
    while (this.truncated && ((all[from] ?? 0) & 0xc0) === 0x80) from++;
    return all.subarray(from).toString("utf8");
  }
}
