/** Output of programs as plain text: without the sequences that move a terminal's cursor or colour its text. */

/** other control characters are shown as escapes, so that output cannot look like something else */
export function plainText(text: string): string {
  return text
    .replaceAll(escapeSequences, "")
    .replaceAll("\r\n", "\n")
    .replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, (character) =>
      character === "\n" || character === "\t" ? character : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
    );
}

/** every byte of an output, with each control character as an escape */
export function rawText(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, (character) => {
    if (character === "\n" || character === "\t") return character;
    return character === "\r" ? "\\r" : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const escapeSequences = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

export interface Piece {
  stream: string;
  text: string;
}

/** Some lines of an output. The page draws only the blocks that can be seen. */
export interface Block {
  /** counted from the first block of the output */
  id: number;
  pieces: readonly Piece[];
  /** about, for the height that it has before it is drawn */
  lines: number;
}

/** a block that is longer than this ends with its line, in characters */
const longBlock = 8192;
/** a block ends here in any case */
const longestBlock = 65_536;

/** The end of an output. */
export class KeptOutput {
  readonly #most: number;
  #blocks: Block[] = [];
  #length = 0;
  #made = 0;

  /** with the most characters that it keeps; older ones give way */
  constructor(most: number) {
    this.#most = most;
  }

  add(stream: string, text: string): void {
    for (let rest = text; rest !== ""; ) {
      const last = this.#blocks.at(-1);
      const length = isFull(last) ? 0 : lengthOf(last);
      const lineEnd = rest.indexOf("\n", Math.max(0, longBlock - length)) + 1;
      const end = Math.min(lineEnd || rest.length, longestBlock - length);
      this.#append(stream, rest.slice(0, end));
      rest = rest.slice(end);
    }
    let gone = 0;
    while (this.#length > this.#most && gone < this.#blocks.length - 1) this.#length -= lengthOf(this.#blocks[gone++]);
    if (gone > 0) this.#blocks = this.#blocks.slice(gone);
  }

  blocks(): readonly Block[] {
    return [...this.#blocks];
  }

  #append(stream: string, text: string): void {
    const last = this.#blocks.at(-1);
    const isNew = last === undefined || isFull(last);
    const { id, pieces, lines } = last && !isNew ? last : { id: this.#made++, pieces: [], lines: 0 };
    const before = pieces.at(-1);
    const joined =
      before?.stream === stream
        ? [...pieces.slice(0, -1), { stream, text: before.text + text }]
        : [...pieces, { stream, text }];
    const block = { id, pieces: joined, lines: lines + text.split("\n").length - 1 };
    if (!isNew) this.#blocks[this.#blocks.length - 1] = block;
    else this.#blocks.push(block);
    this.#length += text.length;
  }
}

function isFull(block: Block | undefined): boolean {
  const length = lengthOf(block);
  return length >= longestBlock || (length >= longBlock && block?.pieces.at(-1)?.text.endsWith("\n") === true);
}

function lengthOf(block: Block | undefined): number {
  return block?.pieces.reduce((sum, { text }) => sum + text.length, 0) ?? 0;
}
