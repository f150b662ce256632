/**
 * Shows untrusted text on a terminal: an image maker's text may contain anything, and must not move the cursor or
 * mislead.
 */

/** one line, with all characters escaped that control a terminal or change the direction of text */
export function shown(text: string, most = 200): string {
  const plain = text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu, (sign) => {
    return `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`;
  });
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}
