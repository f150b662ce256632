/** Numbers, times and foreign text as people read them. */

/** control and direction characters, which could make a name look like another one, shown as escapes */
export function visible(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u{${code.toString(16)}}`;
  });
}

/** "3m", "2h 5m": at most two units */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, minutes] = [86_400, 3600, 60].map((unit) => Math.floor(seconds / unit)) as [
    number,
    number,
    number,
  ];
  if (days > 0) return two(`${days}d`, hours % 24, "h");
  if (hours > 0) return two(`${hours}h`, minutes % 60, "m");
  return minutes > 0 ? `${minutes}m` : `${seconds}s`;
}

function two(first: string, rest: number, unit: string): string {
  return rest === 0 ? first : `${first} ${rest}${unit}`;
}

/** "4.1 s", "230 ms" */
export function took(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms);
}

const units = ["B", "kB", "MB", "GB", "TB", "PB"];

export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** MiB as people say it */
export function memory(mib: number): string {
  return mib >= 1024 ? `${Number((mib / 1024).toFixed(1))} GiB` : `${mib} MiB`;
}

/** "1 sandbox", "2 sandboxes" */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`;
}

export function clock(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB");
}

export function date(at: number): string {
  return `${new Date(at).toLocaleDateString("sv-SE")} ${clock(at)}`;
}

/** a command as somebody would type it */
export function line(command: string, args: readonly string[]): string {
  return visible([command, ...args].map(quoted).join(" "));
}

/** the same, without the shell around a line that somebody typed */
export function commandLine(command: string, args: readonly string[]): string {
  const [flag, text = ""] = args;
  return command === "sh" && flag === "-c" && args.length === 2 ? visible(text) : line(command, args);
}

function quoted(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
