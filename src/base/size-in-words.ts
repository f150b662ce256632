/** Sizes for people. */

/** bytes in readable units, such as "1.5 GB" */
export function sizeInWords(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, bytes < 1000 ? 0 : Math.floor(Math.log10(bytes) / 3));
  return `${Number((bytes / 1000 ** step).toFixed(1))} ${units[step]}`;
}
