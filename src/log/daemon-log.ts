/** The log of this process: what the daemon's parts are given to write to it, and the secrets that it keeps out of it. */

import type { Config } from "../config/config.ts";
import type { About, Seal } from "../core/context.ts";
import { messageOf } from "../core/model/errors.ts";
import { createLog, type Log } from "./log.ts";
import { Redaction } from "./redaction.ts";
import { currentScope, currentSecrets } from "./request-scope.ts";

const redaction = new Redaction();

/** until the settings are read, and for commands that are no daemon */
let log = logWith({ logFormat: "pretty", logLevel: "info" });

/** applies the log settings, and hides the secrets among all settings from now on */
export function openLog(config: Config): Log {
  log = logWith(config);
  const { apiKey, databaseUrl, egressProxy, sandboxEnv } = config;
  const password = databaseUrl === undefined ? undefined : URL.parse(databaseUrl)?.password;
  const credentials = egressProxy?.authorization?.replace(/^Basic /, "");
  const decoded = credentials === undefined ? [] : Buffer.from(credentials, "base64").toString().split(/:(.*)/s);
  const secrets = [apiKey, databaseUrl, password, password && decodeURIComponent(password), credentials, decoded[1]];
  for (const secret of [...secrets, ...Object.values(sandboxEnv)]) if (secret !== undefined) redaction.keep(secret);
  return log;
}

/** from now on no line shows it */
export const redact = redaction.add;

/** a seal that hides every secret it seals or opens from the log */
export function redacting(seal: Seal): Seal {
  return {
    isSealed: seal.isSealed,
    seal(text) {
      redact(text);
      return seal.seal(text);
    },
    open(sealed) {
      const text = seal.open(sealed);
      redact(text);
      return text;
    },
  };
}

/** of something that the operator should know */
export function warn(sentence: string, about: About = {}): void {
  log.warn({ ...about }, sentence);
}

/** returns a function that logs each sentence once */
export function notices(): (sentence: string) => void {
  const said = new Set<string>();
  return (sentence) => {
    if (!said.has(sentence)) log.info(sentence);
    said.add(sentence);
  };
}

/** of something that went wrong where no caller waits */
export function logError(error: unknown, about: About = {}): void {
  log.error({ ...about, err: error }, messageOf(error));
}

function logWith({ logFormat: format, logLevel: level }: Pick<Config, "logFormat" | "logLevel">): Log {
  const write = (line: string) => void process.stderr.write(line);
  return createLog({ format, level, redaction, scope: currentScope, secrets: currentSecrets, write });
}
