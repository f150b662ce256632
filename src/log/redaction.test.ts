/** Every kind of secret that passes through the daemon, and that no line of the log shows it. */

import { describe, expect, test } from "vitest";
import { makeOidcToken } from "../api/vercel/account/token.ts";
import { createLog } from "./log.ts";
import { Redaction } from "./redaction.ts";

/** what is written for an error with this message, in both formats */
function written(redaction: Redaction, message: string): string[] {
  return (["pretty", "json"] as const).map((format) => {
    const lines: string[] = [];
    const log = createLog({ format, level: "debug", redaction, scope: () => ({}), write: (line) => lines.push(line) });
    log.error({ err: new Error(message), path: message, nested: { list: [message] } }, message);
    expect(lines).toHaveLength(1);
    return lines.join("");
  });
}

const key = `sk_${"aB3".repeat(14)}`;
const scope = { teamId: "team_default", projectId: "prj_default" };

describe("what looks like a secret", () => {
  const rows: [string, string, string][] = [
    ["an API key", `Cannot use ${key} here`, key],
    ["a bearer token", "authorization: Bearer abc.def-ghi_123 was refused", "abc.def-ghi_123"],
    ["a password of basic authentication", "Proxy-Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"],
    ["a token of a project", `Cannot read ${makeOidcToken(key, scope)}`, makeOidcToken(key, scope).slice(-20)],
    ["a database's password", "Cannot reach postgres://sandkeep:hunter22@db.test:5432/x", "hunter22"],
    ["git credentials", "Cannot clone https://x-access-token:ghp_0123456789@git.test/a.git", "ghp_0123456789"],
    ["a user who is a token", "Cannot clone https://ghp_0123456789@git.test/a.git: refused", "ghp_0123456789"],
    ["a token in a query", "GET /terminal?rows=3&token=s3cr3tvalue&columns=4 failed", "s3cr3tvalue"],
    ["a password of a connection string", "host=db.test password=hunter22 user=x", "hunter22"],
  ];
  test.each(rows)("%s is not shown", (_, message, secret) => {
    for (const line of written(new Redaction(), message)) {
      expect(line).not.toContain(secret);
      expect(line).toContain("[redacted]");
    }
  });

  test("an address without credentials and ordinary words stay", () => {
    const message = 'Cannot reach "https://git.test/a@b.git": key of sandbox "token-1" (mail me@x.test)';
    for (const line of written(new Redaction(), message)) expect(line).not.toContain("[redacted]");
  });
});

describe("what was told to it", () => {
  test.each([
    ["an environment variable", "correct horse"],
    ["a header's value", 'quoted "value" \\ with é'],
    ["a password with characters of a URL", "p@ss/w:rd?&"],
    ["one that looks like JSON", '","level":"x'],
  ])("%s is not shown, as it is, in JSON or in a URL", (_, secret) => {
    const redaction = new Redaction();
    redaction.add(secret);
    const message = `a ${secret} b ${JSON.stringify({ secret })} c ${encodeURIComponent(secret)} d`;
    const [pretty = "", json = ""] = written(redaction, message);
    for (const form of [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]) {
      expect(pretty).not.toContain(form);
      expect(JSON.parse(json).msg).not.toContain(form);
    }
    expect(JSON.parse(json)).toMatchObject({ level: "error", msg: expect.stringMatching(/^a \[redacted\] b .* d$/) });
  });

  test("a line of a private key is not shown, and of two secrets not the rest of the longer", () => {
    const redaction = new Redaction();
    redaction.add("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----");
    redaction.add("password");
    redaction.add("password-of-ada");
    const [line] = written(redaction, "MIIEvQIBADANBgkqhkiG password-of-ada");
    expect(line).not.toMatch(/MIIE|ada/);
  });

  test("is forgotten when thousands came after it, so that it does not grow without end", () => {
    const redaction = new Redaction();
    for (let i = 0; i < 5000; i++) redaction.add(`secret ${i}!`);
    expect(redaction.text("secret 0! secret 4999!")).toBe("secret 0! [redacted]");
  });

  test("is kept if it is a secret of the settings, whatever comes after it", () => {
    const redaction = new Redaction();
    redaction.keep("password-of-settings");
    for (let i = 0; i < 5000; i++) redaction.add(`secret ${i}!`);
    expect(redaction.text("password-of-settings")).toBe("[redacted]");
  });

  test("has few forms, however many lines it has, and long ones push out others", () => {
    const redaction = new Redaction();
    redaction.add("an-early-secret");
    const lines = Array.from({ length: 6500 }, (_, n) => `line ${n} of a long text`);
    redaction.add(lines.join("\n"));
    expect(redaction.text("an-early-secret")).toBe("[redacted]");
    expect(redaction.text(`${lines[0]}, ${lines[6000]}`)).toBe(`[redacted], ${lines[6000]}`);
    for (let i = 0; i < 80; i++) redaction.add(`${i}`.padEnd(60_000, "x"));
    expect(redaction.text("an-early-secret")).toBe("an-early-secret");
  });

  test("of one request is hidden in its own lines only: anyone may send any text as a key", () => {
    const redaction = new Redaction();
    const line = `${JSON.stringify({ msg: "the key is wrong-key-1" })}\n`;
    expect(redaction.line(line, ["wrong-key-1"])).toBe(`${JSON.stringify({ msg: "the key is [redacted]" })}\n`);
    expect(redaction.line(line)).toBe(line);
  });
});
