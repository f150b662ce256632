/**
 * A sandbox's id in lowercase letters and digits only, for host names and for APIs with such ids. A sandbox keeps its
 * label as long as it exists, and the label converts back to the id.
 *
 *   sandbox_<digits of base 62>  ↔  i<the same number, with a 1 before its first digit, in base 36>
 *
 * The 1 preserves leading zeros of an id.
 */

const prefix = "sandbox_";
const digits62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** most characters of a label, so that a five-digit port and a dash before it still fit into a host name */
const longest = 57;

export function labelOf(sandboxId: string): string {
  let number = 1n;
  for (const digit of sandboxId.slice(prefix.length)) number = number * 62n + BigInt(digits62.indexOf(digit));
  return `i${number.toString(36)}`;
}

/** undefined if it is not a sandbox's label */
export function idOfLabel(label: string): string | undefined {
  if (!/^i[0-9a-z]+$/.test(label) || label.length > longest) return undefined;
  let number = 0n;
  for (const digit of label.slice(1)) number = number * 36n + BigInt(Number.parseInt(digit, 36));
  let digits = "";
  for (; number >= 62n; number /= 62n) digits = `${digits62[Number(number % 62n)]}${digits}`;
  const id = prefix + digits;
  return number === 1n && digits !== "" && labelOf(id) === label ? id : undefined;
}
