/** Passes bytes on from one stream to another: no faster than the other takes them, and in turns with other machines. */

import type { Duplex, Readable, Writable } from "node:stream";
import type { TimeShare } from "../fairness/turns.ts";

/** about what a chunk takes, in µs: whatever is in it, and by its bytes */
const chunkCost = 30;
const bytesPerMicrosecond = 1_000;

/** passes on everything but the end; returns a function that stops it */
export function pour(from: Readable, to: Writable, share: TimeShare): () => void {
  /** what has to happen before it goes on */
  let obstacles = 0;
  let stopped = false;
  const wait = () => {
    if (obstacles++ === 0) from.pause();
  };
  const go = () => {
    if (--obstacles === 0 && !stopped) from.resume();
  };
  const pass = (chunk: Buffer) => {
    if (!to.write(chunk)) {
      wait();
      to.once("drain", go);
    }
    const cost = chunkCost + chunk.length / bytesPerMicrosecond;
    if (share.spend(cost)) return;
    wait();
    void share.turn(cost).then(go);
  };
  from.on("data", pass);
  from.resume();
  return () => {
    stopped = true;
    from.off("data", pass);
  };
}

/** passes on the bytes and the ends of both directions */
export function pourBoth(one: Duplex, other: Duplex, share: TimeShare): void {
  pourAll(one, other, share);
  pourAll(other, one, share);
}

function pourAll(from: Readable, to: Writable, share: TimeShare): void {
  pour(from, to, share);
  // It may have ended before we listened.
  if (from.readableEnded) to.end();
  else from.once("end", () => to.end());
}
