/** Bytes that are passed on in turns: all of them, in order, and none ahead of their turn. */

import { Duplex, PassThrough, Readable, Writable } from "node:stream";
import { expect, test } from "vitest";
import type { TimeShare } from "../fairness/turns.ts";
import { pour, pourBoth } from "./pour.ts";

test("a machine that has to wait gets one chunk a turn, whether or not the other side is slow", async () => {
  const turns: (() => void)[] = [];
  const share = shareOf({ spend: () => false, turn: () => new Promise((resolve) => turns.push(resolve)) });
  const got: string[] = [];
  const to = new Writable({
    highWaterMark: 1,
    write(chunk: Buffer, _encoding, done) {
      got.push(chunk.toString());
      setImmediate(done);
    },
  });
  const from = Readable.from(["a", "b", "c"].map((text) => Buffer.from(text)));
  pour(from, to, share);
  for (const expected of [["a"], ["a", "b"], ["a", "b", "c"]]) {
    for (let i = 0; i < 10; i++) await new Promise(setImmediate);
    expect(got).toEqual(expected);
    turns.shift()?.();
  }
  expect(turns).toEqual([]);
});

test("what is stopped passes nothing on, though its turn comes", async () => {
  let turn: (() => void) | undefined;
  const waits = new Promise<void>((resolve) => {
    turn = resolve;
  });
  const from = new PassThrough();
  const to = new PassThrough();
  const stop = pour(from, to, shareOf({ spend: () => false, turn: () => waits }));
  from.write("a");
  await new Promise(setImmediate);
  from.write("b");
  stop();
  turn?.();
  await new Promise(setImmediate);
  expect(to.read()?.toString()).toBe("a");
  expect(from.isPaused()).toBe(true);
});

test("both directions pass whole, with their ends", async () => {
  const share = shareOf({ spend: () => true });
  const [inside, outside] = [twoWays(), twoWays()];
  pourBoth(inside.stream, outside.stream, share);
  inside.says("question");
  outside.says("answer");
  expect(await Promise.all([outside.received(), inside.received()])).toEqual(["question", "answer"]);
});

test("an end that came before anybody listened is passed on", async () => {
  const [inside, outside] = [twoWays(), twoWays()];
  inside.says("");
  await new Promise((resolve) => inside.stream.once("end", resolve).resume());
  pourBoth(inside.stream, outside.stream, shareOf({}));
  expect(await outside.received()).toBe("");
});

function shareOf(changes: Partial<TimeShare>): TimeShare {
  return {
    spend: () => true,
    turn: () => Promise.resolve(),
    request: () => () => undefined,
    isFull: false,
    watch: () => () => undefined,
    end: () => undefined,
    ...changes,
  };
}

/** one end of a connection, and what the test says and hears at the other */
function twoWays() {
  const [inwards, outwards] = [new PassThrough(), new PassThrough()];
  return {
    stream: Duplex.from({ readable: inwards, writable: outwards }),
    says: (text: string) => inwards.end(text),
    received: async () => Buffer.concat(await outwards.toArray()).toString(),
  };
}
