/** Writes a tar: the bytes of its members in order, small ones together. */

import { headerOf, padding, type TarMember, tarEnd } from "./header.ts";

/** a member with the fields that matter; the others are 0 or empty */
export type NewMember = Partial<TarMember> & Pick<TarMember, "name">;

/** Turns members into pieces of a tar, as fast as the consumer reads them. */
export class TarWriter {
  #pieces: Buffer[] = [];
  #length = 0;

  /** `contents` must yield exactly as many bytes as the member's size */
  async *member(
    member: NewMember,
    contents?: AsyncIterable<Uint8Array>,
    records?: [key: string, value: Buffer][],
  ): AsyncGenerator<Buffer> {
    const whole = { ...empty, ...member };
    this.#add(headerOf(whole, records));
    let left = whole.size;
    for await (const piece of contents ?? []) {
      left -= piece.length;
      this.#add(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength));
      yield* this.#take(pieceLength);
    }
    if (left !== 0) throw new Error(`A member of a tar has ${whole.size - left} bytes instead of ${whole.size}`);
    this.#add(padding(whole.size));
    yield* this.#take(pieceLength);
  }

  /** a member whose content is in memory */
  *small(member: NewMember, content: Buffer): Generator<Buffer> {
    this.#add(headerOf({ ...empty, ...member, size: content.length }));
    this.#add(content);
    this.#add(padding(content.length));
    yield* this.#take(pieceLength);
  }

  *end(): Generator<Buffer> {
    this.#add(tarEnd());
    yield* this.#take(0);
  }

  #add(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#pieces.push(piece);
    this.#length += piece.length;
  }

  *#take(atLeast: number): Generator<Buffer> {
    if (this.#length === 0 || this.#length < atLeast) return;
    const piece = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces, this.#length);
    this.#pieces = [];
    this.#length = 0;
    if (piece) yield piece;
  }
}

// Small members are passed on together.
const pieceLength = 64 << 10;

const empty: Omit<TarMember, "name"> = {
  type: "file",
  size: 0,
  mode: 0o644,
  uid: 0,
  gid: 0,
  modifiedAt: 0,
  target: "",
  major: 0,
  minor: 0,
  attributes: [],
};
