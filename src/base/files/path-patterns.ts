/**
 * Patterns for paths, as build contexts use them: `*` and `?` within a name, `[…]`, `\` before a character that means
 * itself, `**` for any number of directories. Patterns and paths come from strangers, so matching never goes back: the time
 * it takes grows with the length of the pattern times that of the path, whatever they are.
 */

/** Whether a path, relative and without "." and "..", is left out of a build context. */
export type Ignored = (path: string) => boolean;

/**
 * The rules of an ignore file, one on each line: comments begin with `#`, `!` takes back what earlier lines left out, the
 * last line that matches a path or a directory above it decides. An invalid pattern throws a RangeError that names it, and
 * so do too many rules, and a path once more than `mostSteps` characters were compared with places of patterns.
 */
export function ignoredBy(text: string, mostSteps = Number.POSITIVE_INFINITY): Ignored {
  const lines = text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.trim())
    .filter((line) => line !== "" && line !== "!");
  if (lines.length > mostRules) throw new RangeError(`there are more than ${mostRules} rules`);
  const rules = lines.map((line) => {
    const isBack = line.startsWith("!");
    return { isBack, pattern: new Pattern(tokensOf(cleaned(isBack ? line.slice(1).trim() : line), true)) };
  });
  const steps = { left: mostSteps };
  /** which rules match a directory or one above it: what is in it need not be compared with them again */
  const directories = new Map<string, Uint8Array>();
  const matching = (path: string): Uint8Array => {
    // A rule that matches a directory above is not compared again, but looked at.
    steps.left -= rules.length;
    const found = new Uint8Array(directory(parentOf(path)));
    for (let index = 0; index < rules.length; index++) {
      if (found[index] === 0 && rules[index]?.pattern.matches(path, steps)) found[index] = 1;
    }
    if (steps.left < 0) throw new RangeError("it takes too long to compare so many paths with so many rules");
    return found;
  };
  const directory = (path: string): Uint8Array => {
    if (path === "") return new Uint8Array(rules.length);
    const known = directories.get(path);
    if (known) return known;
    const found = matching(path);
    if (directories.size >= mostDirectories) directories.clear();
    directories.set(path, found);
    return found;
  };
  return (path) => {
    if (rules.length === 0) return false;
    const found = matching(path);
    return rules.reduce((left, { isBack }, index) => (found[index] === 1 ? !isBack : left), false);
  };
}

/** What comparisons may still cost, in characters times places of a pattern; below 0 it is used up. */
export interface Steps {
  left: number;
}

/** matches one name of a path; `**` is the same as `*` */
export function namePattern(pattern: string, steps: Steps = { left: 0 }): (name: string) => boolean {
  const whole = new Pattern(tokensOf(pattern, false));
  return (name) => !name.includes("/") && whole.matches(name, steps);
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

/** for each path as many bytes are kept */
const mostRules = 1000;
/** directories whose rules are remembered at a time */
const mostDirectories = 10_000;

function parentOf(path: string): string {
  const at = path.lastIndexOf("/");
  return at < 0 ? "" : path.slice(0, at);
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
class Pattern {
  readonly #tokens: Token[];
  /** what every text begins with that matches */
  readonly #prefix: string;
  /** of one that begins with any directories: what the names at the end of a path must match, and how many slashes they have */
  readonly #tail: { pattern: Pattern; slashes: number } | undefined;
  #places: Places;
  #next: Places;

  constructor(tokens: Token[]) {
    const [first, ...rest] = tokens;
    const slashes = first?.kind === "directories" ? slashesOf(rest) : undefined;
    this.#tail = slashes === undefined ? undefined : { pattern: new Pattern(rest), slashes };
    this.#tokens = tokens;
    this.#places = new Places(tokens);
    this.#next = new Places(tokens);
    const end = tokens.findIndex((token) => literalOf(token) === undefined);
    this.#prefix = tokens
      .slice(0, end < 0 ? tokens.length : end)
      .map(literalOf)
      .join("");
  }

  matches(text: string, steps: Steps = { left: 0 }): boolean {
    steps.left--;
    if (this.#tail) return this.#tail.pattern.matches(endOf(text, this.#tail.slashes), steps);
    if (!text.startsWith(this.#prefix)) return false;
    this.#places.clear();
    this.#places.enter(0);
    for (const char of text) {
      if (this.#places.list.length === 0) return false;
      steps.left -= this.#places.list.length;
      this.#step(char);
    }
    return this.#places.has(this.#tokens.length * 2);
  }

  #step(char: string): void {
    const next = this.#next;
    next.clear();
    for (const place of this.#places.list) {
      const index = place >> 1;
      const token = this.#tokens[index];
      if (!token) continue;
      if (token.kind === "directories") {
        next.add(index * 2 + 1);
        if (char === "/") next.enter(index + 1);
      } else if (token.kind === "rest" || (token.kind === "name" && char !== "/")) next.enter(index);
      else if (token.kind === "one" && isAmong(token.ranges, char) !== token.isNot) next.enter(index + 1);
    }
    this.#next = this.#places;
    this.#places = next;
  }
}

/** how many slashes there are in all texts that match; undefined where that is not always the same */
function slashesOf(tokens: Token[]): number | undefined {
  const mayVary = (token: Token) =>
    token.kind === "directories" ||
    token.kind === "rest" ||
    (token.kind === "one" && literalOf(token) === undefined && isAmong(token.ranges, "/") !== token.isNot);
  return tokens.some(mayVary) ? undefined : tokens.filter((token) => literalOf(token) === "/").length;
}

/** the names at the end of a path, with so many slashes between them */
function endOf(path: string, slashes: number): string {
  let at = path.length;
  for (let count = 0; count <= slashes && at >= 0; count++) at = at === 0 ? -1 : path.lastIndexOf("/", at - 1);
  return path.slice(at + 1);
}

/** the one character that a token stands for, if it is one */
function literalOf(token: Token): string | undefined {
  if (token.kind !== "one" || token.isNot) return undefined;
  const [[low, high] = ["", undefined], ...more] = token.ranges;
  return low === high && more.length === 0 ? low : undefined;
}

/** Places of a pattern, each once: twice the index of a token, and one more inside of it. */
class Places {
  list: number[] = [];
  readonly #tokens: Token[];
  readonly #marks: Uint8Array;

  constructor(tokens: Token[]) {
    this.#tokens = tokens;
    this.#marks = new Uint8Array((tokens.length + 1) * 2);
  }

  has(place: number): boolean {
    return this.#marks[place] === 1;
  }

  add(place: number): void {
    if (this.has(place)) return;
    this.#marks[place] = 1;
    this.list.push(place);
  }

  /** the place before a token, and those after it that need no character */
  enter(from: number): void {
    for (let index = from; !this.has(index * 2); index++) {
      this.add(index * 2);
      const kind = this.#tokens[index]?.kind;
      if (kind === undefined || kind === "one") return;
    }
  }

  clear(): void {
    for (const place of this.list) this.#marks[place] = 0;
    this.list.length = 0;
  }
}

function isAmong(ranges: [string, string][], char: string): boolean {
  return ranges.some(([low, high]) => low <= char && char <= high);
}
