/**
 * A sandbox's id in lowercase letters and digits alone, for host names and for wires whose ids are made of these. The same
 * sandbox has the same label for as long as it exists, and the id can be read out of the label again.
 *
 *   sandbox_<digits of base 62>  ↔  i<the same number, with a 1 before its first digit, in base 36>
 *
 * The 1 keeps zeros at the beginning of an id.
 */

const prefix = "sandbox_";
const digits62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** characters of the longest label: with a port of five digits and a dash before it, the label of a host name */
const longest = 57;

export function labelOf(sandboxId: string): string {
  let number = 1n;
  for (const digit of sandboxId.slice(prefix.length)) number = number * 62n + BigInt(digits62.indexOf(digit));
  return `i${number.toString(36)}`;
}

/** undefined when it is no label of any sandbox */
export function idOfLabel(label: string): string | undefined {
  if (!/^i[0-9a-z]+$/.test(label) || label.length > longest) return undefined;
  let number = 0n;
  for (const digit of label.slice(1)) number = number * 36n + BigInt(Number.parseInt(digit, 36));
  let digits = "";
  for (; number >= 62n; number /= 62n) digits = `${digits62[Number(number % 62n)]}${digits}`;
  const id = prefix + digits;
  return number === 1n && digits !== "" && labelOf(id) === label ? id : undefined;
}
