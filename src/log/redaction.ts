/**
 * Removes secrets from log lines in two ways, because neither finds all of them: secrets that passed through the daemon
 * are registered here, and patterns find texts that look like secrets (keys, tokens, credentials in URLs).
 */

import { keepLast } from "../base/bounded-map.ts";

/**
 * how many registered secrets are kept, the newest ones, and the minimum length of one: shorter texts appear in every
 * sentence
 */
const mostSecrets = 2000;
const shortest = 6;
/** the minimum length of a line of a multi-line secret, such as a private key */
const shortestLine = 16;

const removed = "[redacted]";

/** what looks like a secret, and what stays of it */
const patterns: [RegExp, string][] = [
  // Our own API keys.
  [/\bsk_[A-Za-z0-9_-]{8,}/g, removed],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{4,}/gi, `$1 ${removed}`],
  // JSON Web Tokens.
  [/\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/g, removed],
  // A user and a password before the host of a URL.
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/?#"'<>]*@/gi, `$1${removed}@`],
  [
    /\b((?:access_|refresh_|id_)?token|api[-_]?key|key|password|passwd|pwd|secret|signature|sig)=[^&\s"'\\]+/gi,
    `$1=${removed}`,
  ],
];

export class Redaction {
  #newest: string | undefined;
  /** each with its forms */
  readonly #secrets = new Map<string, readonly string[]>();

  /** from now on no line shows it */
  readonly add = (secret: string): void => {
    // Most requests have the key of the request before them.
    if (secret === this.#newest) return;
    this.#newest = secret;
    const forms = this.#secrets.get(secret) ?? formsOf(secret);
    if (forms.length === 0) return;
    this.#secrets.delete(secret);
    this.#secrets.set(secret, forms);
    keepLast(this.#secrets, mostSecrets);
  };

  /** a line of JSON without secrets in its texts */
  readonly line = (json: string): string => {
    if (this.text(json) === json) return json;
    // Text by text, so that a secret which looks like JSON cannot break the line.
    const clean = (key: string, value: unknown) =>
      typeof value === "string" && key !== "level" && key !== "time" ? this.text(value) : value;
    return `${JSON.stringify(JSON.parse(json, clean))}\n`;
  };

  text(text: string): string {
    const found = [...this.#secrets.values()].flat().filter((secret) => text.includes(secret));
    // The longest first: one may be the beginning of another.
    const known = found.sort((a, b) => b.length - a.length);
    const without = known.reduce((left, secret) => left.replaceAll(secret, removed), text);
    return patterns.reduce((left, [pattern, stays]) => left.replace(pattern, stays), without);
  }
}

/** the plain text and its long lines, and their forms inside JSON and URLs */
function formsOf(secret: string): string[] {
  const lines = secret.split("\n").filter((line) => line !== secret && line.length >= shortestLine);
  const texts = [secret, ...lines].filter((text) => text.length >= shortest);
  return [...new Set(texts.flatMap((text) => [text, JSON.stringify(text).slice(1, -1), encoded(text)]))];
}

function encoded(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    // A lone surrogate cannot be encoded in a URL.
    return text;
  }
}
