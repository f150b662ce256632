/**
 * Patterns for paths, as build contexts use them: `*` and `?` within a name, `[…]`, `\` before a character that means
 * itself, `**` for any number of directories. Patterns and paths come from strangers, so matching never goes back: the time
 * it takes grows with the length of the pattern times that of the path, whatever they are.
 */

/** Whether a path, relative and without "." and "..", is left out of a build context. */
export type Ignored = (path: string) => boolean;

/**
 * The rules of an ignore file, one on each line: comments begin with `#`, `!` takes back what earlier lines left out, the
 * last line that matches a path or a directory above it decides. An invalid pattern throws a RangeError that names it.
 */
export function ignoredBy(text: string): Ignored {
  const rules = text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.trim())
    .filter((line) => line !== "" && line !== "!")
    .map((line) => {
      const isBack = line.startsWith("!");
      return { isBack, matches: pathPattern(cleaned(isBack ? line.slice(1).trim() : line)) };
    });
  return (path) => {
    const parents = upTo(path);
    let left = false;
    for (const { isBack, matches } of rules) {
      if (isBack === left && parents.some(matches)) left = !isBack;
    }
    return left;
  };
}

/** matches whole paths */
export function pathPattern(pattern: string): (path: string) => boolean {
  const tokens = tokensOf(pattern, true);
  return (path) => matches(tokens, path);
}

/** matches one name of a path; `**` is the same as `*` */
export function namePattern(pattern: string): (name: string) => boolean {
  const tokens = tokensOf(pattern, false);
  return (name) => !name.includes("/") && matches(tokens, name);
}

export function isPattern(text: string): boolean {
  return /[*?[\\]/.test(text);
}

/** without a slash at either end, empty names, "." and what ".." takes back */
function cleaned(pattern: string): string {
  const names: string[] = [];
  for (const name of pattern.split("/")) {
    if (name === "..") names.pop();
    else if (name !== "" && name !== ".") names.push(name);
  }
  return names.join("/");
}

/** "a", "a/b" and "a/b/c" of "a/b/c" */
function upTo(path: string): string[] {
  const names = path.split("/");
  return names.map((_, index) => names.slice(0, index + 1).join("/"));
}

type Token =
  /** one character that is among these, or is not; ranges are inclusive */
  | { kind: "one"; ranges: [string, string][]; isNot: boolean }
  /** any text within a name */
  | { kind: "name" }
  /** any text, slashes included */
  | { kind: "rest" }
  /** nothing, or any text that ends in a slash */
  | { kind: "directories" };

const notSlash: Token = { kind: "one", ranges: [["/", "/"]], isNot: true };

function tokensOf(pattern: string, deep: boolean): Token[] {
  const chars = [...pattern];
  const tokens: Token[] = [];
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at] ?? "";
    if (char === "*") {
      let stars = 1;
      while (chars[at + 1] === "*") {
        at++;
        stars++;
      }
      if (stars === 1 || !deep) tokens.push({ kind: "name" });
      else if (at === chars.length - 1) tokens.push({ kind: "rest" });
      else {
        if (chars[at + 1] === "/") at++;
        tokens.push({ kind: "directories" });
      }
    } else if (char === "?") tokens.push(notSlash);
    else if (char === "[") at = pushClass(tokens, chars, at, pattern);
    else {
      const literal = char === "\\" ? chars[++at] : char;
      if (literal === undefined) throw new RangeError(`the pattern "${pattern}" ends in a backslash`);
      tokens.push({ kind: "one", ranges: [[literal, literal]], isNot: false });
    }
  }
  return tokens;
}

/** a class that begins at `from`; where it ends */
function pushClass(tokens: Token[], chars: string[], from: number, pattern: string): number {
  const invalid = () => new RangeError(`the pattern "${pattern}" has a [ without its end`);
  let at = from + 1;
  const isNot = chars[at] === "^" || chars[at] === "!";
  if (isNot) at++;
  const ranges: [string, string][] = [];
  const one = (): string => {
    const char = chars[at] === "\\" ? chars[++at] : chars[at];
    if (char === undefined) throw invalid();
    at++;
    return char;
  };
  while (chars[at] !== "]" || ranges.length === 0) {
    const low = one();
    const isRange = chars[at] === "-" && chars[at + 1] !== "]";
    if (isRange) at++;
    ranges.push([low, isRange ? one() : low]);
  }
  // A slash ends a name also where a class leaves it open.
  tokens.push({ kind: "one", ranges: isNot ? [...ranges, ["/", "/"]] : ranges, isNot });
  return at;
}

/**
 * Walks the text once, with all places of the pattern that its beginning leads to. Each token has two: before it, and, for
 * "directories", inside it, where only a slash leads on.
 */
function matches(tokens: Token[], text: string): boolean {
  let places = new Uint8Array((tokens.length + 1) * 2);
  enter(tokens, places, 0);
  for (const char of text) {
    const next = new Uint8Array(places.length);
    for (const [index, token] of tokens.entries()) {
      const isBefore = places[index * 2] === 1;
      const isInside = places[index * 2 + 1] === 1;
      if (!isBefore && !isInside) continue;
      if (token.kind === "directories") {
        next[index * 2 + 1] = 1;
        if (char === "/") enter(tokens, next, index + 1);
      } else if (token.kind === "rest" || (token.kind === "name" && char !== "/")) enter(tokens, next, index);
      else if (token.kind === "one" && isAmong(token.ranges, char) !== token.isNot) enter(tokens, next, index + 1);
    }
    places = next;
  }
  return places[tokens.length * 2] === 1;
}

/** marks a place, and those after it that need no character */
function enter(tokens: Token[], places: Uint8Array, from: number): void {
  for (let index = from; places[index * 2] !== 1; index++) {
    places[index * 2] = 1;
    const kind = tokens[index]?.kind;
    if (kind === undefined || kind === "one") return;
  }
}

function isAmong(ranges: [string, string][], char: string): boolean {
  return ranges.some(([low, high]) => low <= char && char <= high);
}
