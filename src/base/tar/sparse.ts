/**
 * Sparse files in a tar: their content leaves out the holes, and a map says where its pieces belong.
 *
 *   GNU tar's own format   type "S". In the header, from byte 386 on: four pieces (offset and length, 12 bytes each), a byte
 *                          that is not 0 if blocks with 21 more follow, and the size of the file with its holes
 *   pax, version 0.1       records GNU.sparse.map ("offset,length,…"), GNU.sparse.size and GNU.sparse.name
 *   pax, version 1.0       records GNU.sparse.major, .minor, .realsize and .name. The map is in front of the content: the
 *                          number of pieces, and the offset and length of each, a line for every number, padded to blocks
 */

import { blockLength, numberAt, TarError } from "./header.ts";

export interface SparseMap {
  /** bytes of the file with its holes */
  size: number;
  /** in their order, apart from each other */
  pieces: Piece[];
}

interface Piece {
  offset: number;
  length: number;
}

/** takes the next bytes of the tar */
export type Take = (length: number) => Promise<Buffer>;

/** most pieces of one file */
const mostPieces = 100_000;

/** the map of a member of GNU tar's own format, from its header and the blocks that follow it */
export async function oldSparseMap(header: Buffer, take: Take): Promise<SparseMap> {
  const pieces = piecesIn(header, 386, 4);
  for (let isMore = header[482] !== 0; isMore; ) {
    const block = await take(blockLength);
    pieces.push(...piecesIn(block, 0, 21));
    if (pieces.length > mostPieces) throw tooMany();
    isMore = block[504] !== 0;
  }
  return { size: numberAt(header, 483, 12), pieces };
}

/** the map of a member with records of version 0.1 or 1.0; takes a map in front of the content from it */
export async function paxSparseMap(records: ReadonlyMap<string, Buffer>, take: Take): Promise<SparseMap> {
  const text = (key: string) => records.get(`GNU.sparse.${key}`)?.toString("latin1");
  const version = `${text("major") ?? "0"}.${text("minor") ?? "1"}`;
  if (version === "1.0") return { size: numberOf(text("realsize")), pieces: await piecesBefore(take) };
  const map = text("map");
  if (version !== "0.1" || map === undefined) throw new TarError("a sparse file has an unknown format");
  const numbers = map.split(",", 2 * mostPieces + 1).map(numberOf);
  return { size: numberOf(text("size")), pieces: pairs(numbers) };
}

/** refuses a map that does not fit to `stored` bytes of content */
export function checkSparse({ size, pieces }: SparseMap, stored: number): void {
  let [end, sum] = [0, 0];
  for (const { offset, length } of pieces) {
    if (offset < end) throw wrong();
    end = offset + length;
    sum += length;
  }
  if (end > size || sum !== stored) throw wrong();
}

/** the content with its holes */
export async function* withHoles(
  { size, pieces }: SparseMap,
  some: (most: number) => Promise<Buffer>,
): AsyncGenerator<Buffer> {
  let at = 0;
  for (const { offset, length } of [...pieces, { offset: size, length: 0 }]) {
    for (; at < offset; at += Math.min(offset - at, zeros.length)) yield zeros.subarray(0, offset - at);
    for (const end = offset + length; at < end; ) {
      const content = await some(end - at);
      at += content.length;
      yield content;
    }
  }
}

const zeros = Buffer.alloc(64 << 10);

function piecesIn(block: Buffer, at: number, count: number): Piece[] {
  const pieces = Array.from({ length: count }, (_, index) => {
    const place = at + 24 * index;
    return { offset: numberAt(block, place, 12), length: numberAt(block, place + 12, 12) };
  });
  // What is not used is zeros.
  return pieces.filter(({ offset, length }) => offset + length > 0);
}

async function piecesBefore(take: Take): Promise<Piece[]> {
  const numbers: number[] = [];
  let digits = "";
  for (let wanted = 1; numbers.length < wanted; ) {
    const lines = (digits + (await take(blockLength)).toString("latin1")).split("\n");
    digits = lines.pop() ?? "";
    if (digits.length > blockLength) throw wrong();
    for (const line of lines)
      if (numbers.length < wanted) {
        numbers.push(numberOf(line));
        if (numbers.length === 1) wanted += 2 * (numbers[0] ?? 0);
      }
    if (wanted > 2 * mostPieces + 1) throw tooMany();
  }
  return pairs(numbers.slice(1));
}

function pairs(numbers: number[]): Piece[] {
  if (numbers.length > 2 * mostPieces) throw tooMany();
  if (numbers.length % 2 !== 0) throw wrong();
  return Array.from({ length: numbers.length / 2 }, (_, index) => {
    return { offset: numbers[2 * index] ?? 0, length: numbers[2 * index + 1] ?? 0 };
  });
}

function numberOf(text: string | undefined): number {
  if (text === undefined || !/^\d{1,15}$/.test(text)) throw wrong();
  return Number(text);
}

function wrong(): TarError {
  return new TarError("the map of a sparse file is wrong");
}

function tooMany(): TarError {
  return new TarError(`a sparse file has more than ${mostPieces} pieces`);
}
