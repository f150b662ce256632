/** How a command prints: words that a shell reads back unchanged, and sizes for people. */

/** a word that any POSIX shell takes literally */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** bytes in readable units, such as "1.5 GB" */
export function sizeInWords(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, bytes < 1000 ? 0 : Math.floor(Math.log10(bytes) / 3));
  return `${Number((bytes / 1000 ** step).toFixed(1))} ${units[step]}`;
}

/** MiB of memory, as they are asked for: "512 MiB", "4 GiB" */
export function memoryInWords(mebibytes: number): string {
  return mebibytes < 1024 ? `${mebibytes} MiB` : `${Number((mebibytes / 1024).toFixed(1))} GiB`;
}

/** replaces the line of a terminal where the cursor is; a longer text would wrap and leave its first part behind */
export function redrawn(line: string, columns = 80): string {
  return `\r\x1b[K${line.slice(0, Math.max(0, columns - 1))}`;
}
