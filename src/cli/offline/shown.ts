/** Text of others on a terminal: what an image's maker wrote may hold anything, and must not move the cursor or lie. */

/** on one line, with everything escaped that a terminal acts on or that shows in another order than it is written */
export function shown(text: string, most = 200): string {
  const plain = text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu, (sign) => {
    return `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`;
  });
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}
