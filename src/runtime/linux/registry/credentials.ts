/**
 * Logins to registries: those that `sandkeep registry login` sealed into the data directory, and those of `docker
 * login`. A file of credentials never makes a pull fail: an unreadable one causes a warning and a pull without a login.
 *
 *   <data>/registries.json   { "registries": { host: { "user": …, "secret": sealed, "createdAt": ms } } }
 *   ~/.docker/config.json    { "auths": { host: { "auth": base64 of user:password, "identitytoken": … } },
 *                            "credHelpers": { host: name }, "credsStore": name }; Docker's registry has a URL there, and
 *                            the names are of programs that keep passwords (login-program.ts)
 */

import { readFileSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Seal } from "../../../core/context.ts";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { isMissing, readJson, writeJson } from "../storage/json-file.ts";
import { askProgram } from "./login-program.ts";
import { isRegistry } from "./reference.ts";

export interface Login {
  user: string;
  password: string;
  /** whether the password is an identity token, which only the registry's token server takes */
  isToken?: boolean;
}

/** A registry with a login. */
export interface KnownLogin {
  registry: string;
  user: string;
  from: "sandkeep" | "docker";
}

export interface CredentialsOptions {
  dataDir: string;
  seal: Pick<Seal, "seal" | "open">;
  /** the file that `docker login` writes; undefined if it must not be read */
  dockerFile: string | undefined;
  /** called with a sentence about a file that cannot be used */
  warn(sentence: string): void;
}

export class Credentials {
  readonly #options: CredentialsOptions;
  readonly #path: string;

  constructor(options: CredentialsOptions) {
    this.#options = options;
    this.#path = join(options.dataDir, "registries.json");
  }

  /** the login for a registry; sealed ones come before Docker's */
  async find(registry: string): Promise<Login | undefined> {
    const own = (await this.#own())[registry];
    if (own) return { user: own.user, password: this.#options.seal.open(own.secret) };
    const { logins, helpers, store } = this.#dockers();
    const helper = helpers[registry] ?? store;
    return logins[registry] ?? (helper ? askProgram(helper, registry, this.#options.warn) : undefined);
  }

  async list(): Promise<KnownLogin[]> {
    const own = Object.entries(await this.#own()).map(([registry, { user }]) => ({ registry, user, from: "sandkeep" }));
    const there = new Set(own.map(({ registry }) => registry));
    const dockers = Object.entries(this.#dockers().logins)
      .filter(([registry]) => !there.has(registry))
      .map(([registry, { user }]) => ({ registry, user, from: "docker" }));
    return [...own, ...dockers].sort((a, b) => (a.registry < b.registry ? -1 : 1)) as KnownLogin[];
  }

  async put(registry: string, { user, password }: Login): Promise<void> {
    checkRegistry(registry);
    // HTTP's Basic scheme cannot transmit such a name.
    if (user === "" || /[:\p{Cc}]/u.test(user) || user.length > 256) {
      throw new SandkeepError(
        "invalid",
        `Cannot log in to "${registry}": a user's name has 1 to 256 characters, no ":"`,
      );
    }
    if (password === "" || /[\r\n\0]/.test(password) || password.length > 16_384) {
      throw new SandkeepError("invalid", `Cannot log in to "${registry}": there is no password on one line`);
    }
    const entry = { user, secret: this.#options.seal.seal(password), createdAt: Date.now() };
    await this.#write({ ...(await this.#own()), [registry]: entry });
  }

  async delete(registry: string): Promise<void> {
    const { [registry]: there, ...others } = await this.#own();
    if (!there) throw new SandkeepError("not-found", `Cannot log out of "${registry}": there is no login for it`);
    await this.#write(others);
  }

  async #own(): Promise<Registries> {
    return (await readJson(this.#path, registriesFile))?.registries ?? {};
  }

  async #write(registries: Registries): Promise<void> {
    await writeJson(this.#path, { registries });
    await chmod(this.#path, 0o600);
  }

  #dockers(): DockerLogins {
    const { dockerFile, warn } = this.#options;
    const nothing = { logins: {}, helpers: {}, store: undefined };
    if (dockerFile === undefined) return nothing;
    try {
      const { auths, credHelpers, credsStore } = dockerConfig.parse(JSON.parse(readFileSync(dockerFile, "utf8")));
      const logins = Object.entries(auths ?? {}).flatMap(([key, entry]) => loginOf(key, entry));
      const helpers = Object.entries(credHelpers ?? {}).map(([key, name]) => [registryOf(key), name]);
      return {
        logins: Object.fromEntries(logins),
        helpers: Object.fromEntries(helpers),
        store: credsStore ?? undefined,
      };
    } catch (error) {
      if (!isMissing(error)) warn(`Cannot use the credentials in "${dockerFile}": ${messageOf(error).split("\n")[0]}`);
      return nothing;
    }
  }
}

export function checkRegistry(registry: string): void {
  if (isRegistry(registry)) return;
  throw new SandkeepError("invalid", `Cannot use the registry ${JSON.stringify(registry)}: it is not a host name`);
}

type Registries = z.infer<typeof registriesFile>["registries"];

const registriesFile = z.object({
  registries: z.record(z.string(), z.object({ user: z.string(), secret: z.string(), createdAt: z.number() })),
});

/** The logins in Docker's file, by registry, and the programs that have others. */
interface DockerLogins {
  logins: Record<string, Login>;
  helpers: Record<string, string>;
  /** the program for all other registries */
  store: string | undefined;
}

const dockerConfig = z.object({
  auths: z.record(z.string(), z.object({ auth: z.string().nullish(), identitytoken: z.string().nullish() })).nullish(),
  credHelpers: z.record(z.string(), z.string()).nullish(),
  credsStore: z.string().nullish(),
});

/** the name that Docker's programs give to an identity token instead of a user */
export const tokenUser = "<token>";

function registryOf(key: string): string {
  const host = key
    .replace(/^https?:\/\//, "")
    .replace(/\/.*$/, "")
    .toLowerCase();
  return host === "index.docker.io" ? "docker.io" : host;
}

type DockerLogin = NonNullable<z.infer<typeof dockerConfig>["auths"]>[string];

function loginOf(key: string, { auth, identitytoken: token }: DockerLogin): [string, Login][] {
  const text = Buffer.from(auth ?? "", "base64").toString();
  const at = text.indexOf(":");
  // The user beside a token may be missing, or one that means nobody; the password beside it is empty.
  if (token) return [[registryOf(key), { user: text.slice(0, at) || tokenUser, password: token, isToken: true }]];
  return at < 1 ? [] : [[registryOf(key), { user: text.slice(0, at), password: text.slice(at + 1) }]];
}
