/**
 * Removes secrets from log lines in two ways, because neither finds all of them: secrets that passed through the daemon
 * are registered here, and patterns find texts that look like secrets (keys, tokens, credentials in URLs).
 */

/** how many forms of callers' secrets are kept, and of how many characters together: the newest ones */
const most = { forms: 2000, characters: 4 << 20 };
/** the texts of one secret that have forms: it, and its lines. A longer text does not get into a line */
const mostTexts = 32;
const longest = 64 << 10;
/** the minimum length of a text, as shorter ones appear in every sentence, and of a line, such as one of a private key */
const shortest = 6;
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
  /** forms of secrets that stay */
  readonly #settings = new Set<string>();
  /** of callers, each with its forms */
  readonly #secrets = new Map<string, readonly string[]>();
  readonly #kept = { forms: 0, characters: 0 };

  /** from now on no line shows it, until many others have come */
  readonly add = (secret: string): void => {
    // Most commands have the variables of the command before them.
    if (secret === this.#newest) return;
    this.#newest = secret;
    const forms = this.#secrets.get(secret) ?? formsOf(secret);
    if (forms.length === 0) return;
    if (this.#secrets.delete(secret)) this.#count(forms, -1);
    this.#secrets.set(secret, forms);
    this.#count(forms, 1);
    for (const [oldest, its] of this.#secrets) {
      if (this.#kept.forms <= most.forms && this.#kept.characters <= most.characters) break;
      this.#secrets.delete(oldest);
      this.#count(its, -1);
    }
  };

  /** no line shows it, as long as this process runs: a secret of the settings */
  readonly keep = (secret: string): void => {
    for (const form of formsOf(secret)) this.#settings.add(form);
  };

  /** a line of JSON without secrets in its texts; `own` are further ones, of the request that it is about */
  readonly line = (json: string, own: readonly string[] = []): string => {
    if (this.text(json, own) === json) return json;
    // Text by text, so that a secret which looks like JSON cannot break the line.
    const clean = (key: string, value: unknown) =>
      typeof value === "string" && key !== "level" && key !== "time" ? this.text(value, own) : value;
    return `${JSON.stringify(JSON.parse(json, clean))}\n`;
  };

  text(text: string, own: readonly string[] = []): string {
    const forms = [...this.#settings, ...[...this.#secrets.values()].flat(), ...own.flatMap(formsOf)];
    const found = forms.filter((secret) => text.includes(secret));
    // The longest first: one may be the beginning of another.
    const known = found.sort((a, b) => b.length - a.length);
    const without = known.reduce((left, secret) => left.replaceAll(secret, removed), text);
    return patterns.reduce((left, [pattern, stays]) => left.replace(pattern, stays), without);
  }

  #count(forms: readonly string[], sign: 1 | -1): void {
    this.#kept.forms += sign * forms.length;
    this.#kept.characters += sign * forms.reduce((sum, form) => sum + form.length, 0);
  }
}

/** the plain text and its long lines, and their forms inside JSON and URLs */
function formsOf(secret: string): string[] {
  const lines = secret.split("\n", mostTexts).filter((line) => line !== secret && line.length >= shortestLine);
  const texts = [secret, ...lines].filter((text) => text.length >= shortest && text.length <= longest);
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
