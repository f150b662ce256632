/** Text for a terminal without the characters that it would obey: programs in a sandbox chose much of what is shown. */

/** JSON without characters that a terminal interprets */
export function plainJson(value: unknown): string {
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped);
}

/** text with terminal control characters made visible */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, escaped);
}

/** the same for a message of several lines: those stay */
export function plainLines(text: string): string {
  return text.replace(/[^\n\t]+/g, plain);
}

function escaped(char: string): string {
  return [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
}
