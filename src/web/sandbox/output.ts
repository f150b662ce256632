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
