/** Keys of a terminal that this page gives a meaning. */

/** Ctrl-Shift-C and Ctrl-Insert: Ctrl-C alone interrupts the program */
export function isCopying({ ctrlKey, shiftKey, code }: Pick<KeyboardEvent, "ctrlKey" | "shiftKey" | "code">): boolean {
  return ctrlKey && (shiftKey ? code === "KeyC" : code === "Insert");
}

/** what a key sends with Ctrl; a key that has no such meaning sends the same */
export function withControl(key: string): string {
  if (key === " ") return "\0";
  if (key === "?") return "\u007f";
  const isLetter = /^[a-z@[\\\]^_]$/i.test(key);
  return isLetter ? String.fromCharCode(key.toUpperCase().charCodeAt(0) & 0x1f) : key;
}
