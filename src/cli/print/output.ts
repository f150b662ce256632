/** How a command prints: words that a shell reads back unchanged, and lines that replace each other. */

/** a word that any POSIX shell takes literally */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** MiB of memory, as they are asked for: "512 MiB", "4 GiB" */
export function memoryInWords(mebibytes: number): string {
  return mebibytes < 1024 ? `${mebibytes} MiB` : `${Number((mebibytes / 1024).toFixed(1))} GiB`;
}

/** replaces the line of a terminal where the cursor is; a longer text would wrap and leave its first part behind */
export function redrawn(line: string, columns = 80): string {
  return `\r\x1b[K${line.slice(0, Math.max(0, columns - 1))}`;
}
