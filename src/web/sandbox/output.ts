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

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const escapeSequences = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

export interface Piece {
  stream: string;
  text: string;
}

/** longest piece that further text is added to: a page draws few long ones faster than many short ones */
const longestPiece = 16_384;

/** The end of an output, as pieces of one stream each. */
export class KeptOutput {
  readonly #most: number;
  #pieces: Piece[] = [];
  #length = 0;

  /** with the most characters that it keeps; older ones give way */
  constructor(most: number) {
    this.#most = most;
  }

  add(stream: string, text: string): void {
    if (text === "") return;
    const last = this.#pieces.at(-1);
    if (last?.stream === stream && last.text.length + text.length <= longestPiece) {
      this.#pieces[this.#pieces.length - 1] = { stream, text: last.text + text };
    } else this.#pieces.push({ stream, text });
    this.#length += text.length;
    let gone = 0;
    while (this.#length > this.#most && gone < this.#pieces.length - 1) {
      this.#length -= this.#pieces[gone++]?.text.length ?? 0;
    }
    if (gone > 0) this.#pieces = this.#pieces.slice(gone);
  }

  pieces(): readonly Piece[] {
    return [...this.#pieces];
  }
}
