/**
 * The words of a Dockerfile: splits arguments into words, and resolves quotes, escapes and variables in them. As in a
 * shell, single quotes keep everything, double quotes keep blanks, and `${name:-word}` gives a default for a variable
 * that is not set. Text is read once from left to right; the value of a variable is not expanded again.
 */

import { SandkeepError } from "../../../core/model/errors.ts";

/** Returns the value of a variable; undefined for one that is not set. */
export type Variables = (name: string) => string | undefined;

export interface WordReader {
  /** the character that escapes the next one */
  escapeMark: string;
  variables: Variables;
  /** called with the name of each variable that is read */
  used?: (name: string) => void;
}

/** most characters of an expanded word */
const longest = 1 << 20;

/** a word as programs get it: without quotes, with variables replaced by their values */
export function expanded(word: string, reader: WordReader): string {
  const scan = new Scanner(word, reader);
  const text = scan.until("");
  if (text.length > longest) throw wrong(word, "it becomes too long");
  return text;
}

/** cuts text at blanks outside of quotes; quotes and escapes stay in the words */
export function splitWords(text: string, escapeMark: string): string[] {
  const words: string[] = [];
  let word = "";
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (quote === "" && /\s/.test(char)) {
      if (word !== "") words.push(word);
      word = "";
      continue;
    }
    word += char;
    if (char === escapeMark && quote !== "'") word += text[++at] ?? "";
    else if (quote === "" && (char === '"' || char === "'")) quote = char;
    else if (char === quote) quote = "";
  }
  if (word !== "") words.push(word);
  return words;
}

/** the strings of a JSON list, which names a program to run without a shell; undefined for anything else */
export function jsonList(text: string): string[] | undefined {
  if (!text.trimStart().startsWith("[")) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((each) => typeof each === "string") ? value : undefined;
  } catch {
    return undefined;
  }
}

class Scanner {
  readonly #text: string;
  readonly #reader: WordReader;
  #at = 0;
  #depth = 0;

  constructor(text: string, reader: WordReader) {
    this.#text = text;
    this.#reader = reader;
  }

  /** expands the text up to one of these characters, which is not consumed, or to the end */
  until(ends: string): string {
    let out = "";
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] ?? "";
      if (ends.includes(char)) return out;
      if (char === "'") out += this.#single();
      else if (char === '"') out += this.#double();
      else if (char === "$") out += this.#variable();
      else if (char === this.#reader.escapeMark) {
        out += this.#text[this.#at + 1] ?? "";
        this.#at += 2;
      } else {
        out += char;
        this.#at++;
      }
    }
    return out;
  }

  #single(): string {
    const end = this.#text.indexOf("'", this.#at + 1);
    if (end < 0) throw wrong(this.#text, "a quote has no end");
    const quoted = this.#text.slice(this.#at + 1, end);
    this.#at = end + 1;
    return quoted;
  }

  #double(): string {
    let out = "";
    this.#at++;
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] ?? "";
      if (char === '"') {
        this.#at++;
        return out;
      }
      const next = this.#text[this.#at + 1] ?? "";
      if (char === "$") out += this.#variable();
      else if (char === this.#reader.escapeMark && ['"', "$", this.#reader.escapeMark].includes(next)) {
        out += next;
        this.#at += 2;
      } else {
        out += char;
        this.#at++;
      }
    }
    throw wrong(this.#text, "a quote has no end");
  }

  #variable(): string {
    this.#at++;
    if (this.#text[this.#at] !== "{") {
      const name = this.#name();
      return name === "" ? "$" : (this.#value(name) ?? "");
    }
    this.#at++;
    const name = this.#name();
    if (name === "") throw wrong(this.#text, "a { is not followed by a name");
    const isEmptyUnset = this.#text[this.#at] === ":";
    if (isEmptyUnset) this.#at++;
    const operator = this.#text[this.#at++];
    if (operator === "}" && !isEmptyUnset) return this.#value(name) ?? "";
    if (operator === undefined || !"-+?".includes(operator)) {
      throw wrong(this.#text, `\${${name}${isEmptyUnset ? ":" : ""}${operator ?? ""}…} is not supported`);
    }
    if (++this.#depth > 20) throw wrong(this.#text, "it has too many variables inside each other");
    const word = this.until("}");
    this.#depth--;
    if (this.#text[this.#at++] !== "}") throw wrong(this.#text, "a { has no }");
    const value = this.#value(name);
    const isSet = value !== undefined && !(isEmptyUnset && value === "");
    if (operator === "+") return isSet ? word : "";
    if (isSet) return value;
    if (operator === "?") throw wrong(this.#text, `${name} is not set${word === "" ? "" : `: ${word}`}`);
    return word;
  }

  #name(): string {
    const [name = ""] = /^[A-Za-z_][A-Za-z0-9_]*/.exec(this.#text.slice(this.#at, this.#at + 300)) ?? [];
    this.#at += name.length;
    return name;
  }

  #value(name: string): string | undefined {
    this.#reader.used?.(name);
    return this.#reader.variables(name);
  }
}

function wrong(text: string, why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot read "${text.slice(0, 200)}": ${why}`);
}
