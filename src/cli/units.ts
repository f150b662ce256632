/** Values of options with a unit or a form of their own: durations, sizes, variables, ports, numbers. */

import { CliError } from "./errors.ts";

const milliseconds: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** ms of a duration such as 90s, 5m, 12h or 7d */
export function durationOf(option: string, text: string): number {
  const [, count, unit = ""] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? [];
  const length = Number(count) * (milliseconds[unit] ?? 0);
  if (length > 0) return length;
  throw new CliError(`Cannot use ${option} "${text}": it must be a duration such as 90s, 5m, 12h or 7d`);
}

/** a duration as `durationOf` reads it, in the largest unit that needs no fraction */
export function durationInWords(length: number): string {
  const [unit = "ms", size = 1] = Object.entries(milliseconds).findLast(([, size]) => length % size === 0) ?? [];
  return `${length / size}${unit}`;
}

const powers: Record<string, number> = { k: 10, m: 20, g: 30, t: 40 };

/** bytes of a size such as 512m, 2g or 1.5GiB; without a unit it counts MiB */
export function bytesOf(option: string, text: string): number {
  const [, count, unit = "m"] = /^(\d{1,9}(?:\.\d{1,3})?)(?:([kmgt])(?:i?b)?)?$/i.exec(text) ?? [];
  const size = Math.round(Number(count) * 2 ** (powers[unit.toLowerCase()] ?? 0));
  if (size > 0) return size;
  throw new CliError(`Cannot use ${option} "${text}": it must be a size such as 512m or 2g`);
}

/** MiB of a size */
export function memoryOf(option: string, text: string): number {
  const size = Math.floor(bytesOf(option, text) / 2 ** 20);
  if (size > 0) return size;
  throw new CliError(`Cannot use ${option} "${text}": it must be at least 1m`);
}

/** variables from NAME=value, or from NAME alone with the value that it has here */
export function variablesOf(pairs: string[], environment: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, name = "", value = environment[name]] = /^([^=]+)(?:=(.*))?$/s.exec(pair) ?? [];
      if (name === "") throw new CliError(`Cannot use --env "${pair}": it must be NAME=value, or NAME`);
      if (value === undefined) throw new CliError(`Cannot use --env "${name}": no variable of this name is set here`);
      return [name, value];
    }),
  );
}

export function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new CliError(`Cannot use port "${text}": it must be a number from 1 to 65535`);
}

/** a whole number, also 0 */
export function countOf(option: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new CliError(`Cannot use ${option} "${text}": it must be a whole number such as 20`);
}

/** a number such as 2 or 0.5 */
export function numberOf(option: string, text: string): number {
  if (/^\d{1,9}(\.\d{1,3})?$/.test(text)) return Number(text);
  throw new CliError(`Cannot use ${option} "${text}": it must be a number such as 2 or 0.5`);
}
