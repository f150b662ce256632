/**
 * A client of the distribution API: manifests and blobs of one repository, from its registry or a mirror of it.
 *
 *   GET /v2/<repository>/manifests/<tag or digest>      GET /v2/<repository>/blobs/<digest>
 *
 * A registry that answers 401 says how to log in: with user and password (Basic), or with a token from a server of its
 * choice (Bearer). A registry is trusted only with its own credentials. Credentials and tokens go to the registry
 * itself, never along with a redirect. A password goes to a token server only if that is on the registry's own host or
 * on a domain above it. The caller checks the content of answers.
 */

import { createHash } from "node:crypto";
import { z } from "zod";
import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import { largestJson } from "../oci/manifest.ts";
import type { Credentials } from "./credentials.ts";
import { ask, type Patience, type RegistryAnswer, readAll } from "./http.ts";
import { fullName, hostOf, isListed, type Reference } from "./reference.ts";

export interface RegistrySettings {
  /** registries that are accessed without TLS */
  http: readonly string[];
  /** registries, or parts of them, that may have addresses, and redirect to addresses, that are not public */
  private: readonly string[];
  /** by registry: a mirror to ask first, as host or host/path */
  mirrors: Readonly<Record<string, string>>;
  /** certificates to trust; default those that Node knows */
  roots?: string[] | undefined;
  patience?: Patience | undefined;
}

export interface RepositoryOptions {
  settings: RegistrySettings;
  credentials: Pick<Credentials, "find">;
  /** whether the registry itself may have an address that is not public, because the operator listed it */
  isTrusted: boolean;
  signal?: AbortSignal | undefined;
}

/** The manifest of a tag or digest in a registry. */
export interface FoundManifest {
  content: Buffer;
  /** as 64 hexadecimal digits */
  digest: string;
}

const defaultPatience: Patience = { idle: 30_000, window: 60_000, least: 64 << 10 };

const mediaTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];

const mostRedirects = 5;

export class Repository {
  readonly #reference: Reference;
  readonly #options: RepositoryOptions;
  /** the registries to ask, in this order */
  readonly #places: Place[];

  constructor(reference: Reference, options: RepositoryOptions) {
    this.#reference = reference;
    this.#options = options;
    const { mirrors } = options.settings;
    const own: Place = { registry: reference.registry, repository: reference.repository, isMirror: false };
    const mirror = mirrors[reference.registry];
    const [host = "", ...path] = mirror?.split("/") ?? [];
    const copy = { registry: host, repository: [...path, reference.repository].join("/"), isMirror: true };
    this.#places = mirror === undefined ? [own] : [copy, own];
  }

  /** the current manifest of a tag, or the one with this digest */
  async manifest(tagOrDigest: string, isDigest: boolean): Promise<FoundManifest> {
    const path = `manifests/${isDigest ? `sha256:${tagOrDigest}` : tagOrDigest}`;
    const answer = await this.#get(path, { accept: mediaTypes.join(", ") });
    const content = await readAll(answer, largestJson, "its manifest");
    const digest = createHash("sha256").update(content).digest("hex");
    const said = answer.headers["docker-content-digest"];
    if ((isDigest && digest !== tagOrDigest) || (typeof said === "string" && said !== `sha256:${digest}`)) {
      throw new SandkeepError("invalid", `${this.#cannot}: its manifest is not what its digest says`);
    }
    return { content, digest };
  }

  /** a blob from an offset on, or from its start if the registry supports no ranges: `from` of the answer says which */
  async blob(digest: string, from = 0): Promise<{ from: number; answer: RegistryAnswer }> {
    const answer = await this.#get(`blobs/sha256:${digest}`, from > 0 ? { range: `bytes=${from}-` } : {});
    const [, start] = /^bytes (\d+)-/.exec(answer.headers["content-range"] ?? "") ?? [];
    if (answer.status === 206 && Number(start) !== from) {
      answer.discard();
      throw new SandkeepError(
        "invalid",
        `${this.#cannot}: its registry sent another part of a layer than was asked for`,
      );
    }
    return { from: answer.status === 206 ? from : 0, answer };
  }

  /** a small blob, checked */
  async smallBlob(digest: string, what: string): Promise<Buffer> {
    const content = await readAll((await this.blob(digest)).answer, largestJson, what);
    if (createHash("sha256").update(content).digest("hex") === digest) return content;
    throw new SandkeepError("invalid", `${this.#cannot}: ${what} is not what its digest says`);
  }

  get #cannot(): string {
    return `Cannot pull "${fullName(this.#reference)}"`;
  }

  async #get(path: string, headers: Record<string, string>): Promise<RegistryAnswer> {
    for (const place of this.#places) {
      try {
        return await this.#getFrom(place, path, headers);
      } catch (error) {
        // If a mirror lacks it, or is down, the registry itself is asked.
        if (!place.isMirror || !isSandkeepError(error) || this.#options.signal?.aborted) throw error;
      }
    }
    throw new SandkeepError("internal", `${this.#cannot}: there is nowhere to ask`);
  }

  async #getFrom(place: Place, path: string, headers: Record<string, string>): Promise<RegistryAnswer> {
    const url = new URL(`${this.#origin(place.registry)}/v2/${place.repository}/${path}`);
    let answer = await this.#ask(place, url, { ...headers, ...place.authorization });
    if (answer.status === 401) {
      answer.discard();
      place.authorization = await this.#authorization(place, answer.headers["www-authenticate"]);
      if (place.authorization) answer = await this.#ask(place, url, { ...headers, ...place.authorization });
    }
    for (let count = 0; isRedirect(answer); count++) {
      answer.discard();
      if (count >= mostRedirects)
        throw new SandkeepError("invalid", `${this.#cannot}: its registry redirects in circles`);
      const to = this.#redirected(place, answer, url);
      // No credentials: the redirect's address contains all that its server needs.
      answer = await this.#ask(place, to, headers);
    }
    if (answer.status === 200 || answer.status === 206) return answer;
    const said = await readAll(answer, errorLength, "the answer").catch(() => Buffer.alloc(0));
    throw this.#refused(place, answer.status, said);
  }

  #origin(registry: string): string {
    const isPlain = this.#options.settings.http.includes(registry);
    return `${isPlain ? "http" : "https"}://${hostOf(registry)}`;
  }

  #ask(place: Place, url: URL, headers: Record<string, string>, form?: URLSearchParams): Promise<RegistryAnswer> {
    const { settings, signal } = this.#options;
    return ask({
      url,
      headers,
      form,
      mayBePrivate: this.#mayBePrivate(place, url),
      roots: settings.roots,
      patience: settings.patience ?? defaultPatience,
      signal,
    });
  }

  /** the registry itself may if the operator listed it; its redirects only if they are listed as private */
  #mayBePrivate(place: Place, url: URL): boolean {
    const { settings, isTrusted } = this.#options;
    if (isListed(settings.private, place)) return true;
    const isItself = url.host === new URL(this.#origin(place.registry)).host;
    return isItself && (isTrusted || place.isMirror || settings.http.includes(place.registry));
  }

  #redirected(place: Place, answer: RegistryAnswer, from: URL): URL {
    let to: URL;
    try {
      to = new URL(answer.headers.location ?? "", from);
    } catch (cause) {
      throw new SandkeepError("invalid", `${this.#cannot}: its registry redirects to nowhere`, { cause });
    }
    if (to.protocol === "https:" || this.#origin(place.registry).startsWith("http:")) return to;
    const hint = "SANDKEEP_REGISTRY_HTTP lists registries that do without TLS";
    throw new SandkeepError(
      "forbidden",
      `${this.#cannot}: its registry redirects to plain HTTP at "${to.host}" (${hint})`,
    );
  }

  /** the headers to send from now on; undefined if we have no credentials */
  async #authorization(place: Place, challenge: string | undefined): Promise<Record<string, string> | undefined> {
    const login = await this.#options.credentials.find(place.registry);
    // A token instead of a password is for the token server alone.
    const basic =
      login && !login.isToken && `Basic ${Buffer.from(`${login.user}:${login.password}`).toString("base64")}`;
    const { scheme, fields } = parseChallenge(challenge ?? "");
    if (scheme === "basic") return basic ? { authorization: basic } : undefined;
    if (scheme !== "bearer" || !fields.realm) return undefined;
    const realm = this.#realm(place, fields.realm);
    const maySend = login !== undefined && isOwnTokenServer(place.registry, realm);
    const wanted = { ...(fields.service && { service: fields.service }), scope: `repository:${place.repository}:pull` };
    const answer =
      maySend && login.isToken
        ? await this.#ask(place, realm, {}, refreshForm(login.password, wanted))
        : await this.#ask(place, withQuery(realm, wanted), maySend && basic ? { authorization: basic } : {});
    const content = await readAll(answer, largestToken, "the answer of its token server");
    if (answer.status !== 200) {
      const why = login && !maySend ? `; credentials for "${place.registry}" are not sent to "${realm.host}"` : "";
      throw new SandkeepError("forbidden", `${this.#cannot}: ${realm.host} gave no token (${answer.status})${why}`);
    }
    const token = tokenIn(content);
    if (token === undefined) throw new SandkeepError("invalid", `${this.#cannot}: ${realm.host} gave no token`);
    return { authorization: `Bearer ${token}` };
  }

  #realm(place: Place, text: string): URL {
    const url = URL.parse(text);
    const isPlain = this.#origin(place.registry).startsWith("http:");
    if (url?.protocol === "https:" || (isPlain && url?.protocol === "http:")) return url;
    throw new SandkeepError("forbidden", `${this.#cannot}: its token server is not reached by HTTPS`);
  }

  #refused({ registry }: Place, status: number, said: Buffer): SandkeepError {
    if (status === 404) return new SandkeepError("not-found", `${this.#cannot}: "${registry}" does not have it`);
    if (status === 401 || status === 403) {
      const hint = `"sandkeep registry login ${registry}" gives credentials`;
      return new SandkeepError("forbidden", `${this.#cannot}: "${registry}" lets only others have it (${hint})`);
    }
    const code = status === 429 || status >= 500 ? "unavailable" : "invalid";
    const why = status === 429 ? "it has answered too many requests" : `it answered ${status}${reasonIn(said)}`;
    return new SandkeepError(code, `${this.#cannot}: "${registry}" refused: ${why}`);
  }
}

/** A registry that may have the repository. */
interface Place {
  registry: string;
  repository: string;
  isMirror: boolean;
  /** the header that the registry accepts */
  authorization?: Record<string, string> | undefined;
}

const errorLength = 16 << 10;
const largestToken = 64 << 10;

function isRedirect({ status }: RegistryAnswer): boolean {
  return [301, 302, 303, 307, 308].includes(status);
}

/** `Bearer realm="…",service="…"`; the first of several */
export function parseChallenge(text: string): { scheme: string; fields: Record<string, string> } {
  const [, scheme = "", rest = ""] = /^\s*([A-Za-z]+)\s*(.*)$/s.exec(text.slice(0, 8192)) ?? [];
  const fields = [...rest.matchAll(/([A-Za-z]+)=(?:"([^"]*)"|([^\s,"]+))/g)];
  return {
    scheme: scheme.toLowerCase(),
    fields: Object.fromEntries(
      fields.map(([, name = "", quoted, plain]) => [name.toLowerCase(), quoted ?? plain ?? ""]),
    ),
  };
}

/** whether it is the registry's own host, a domain above it with at least two parts, or Docker's own token server */
export function isOwnTokenServer(registry: string, { host, hostname }: URL): boolean {
  if (host === hostOf(registry) || (registry === "docker.io" && host === "auth.docker.io")) return true;
  const isDomain = /[a-z]$/.test(hostname) && hostname.includes(".");
  return isDomain && host === hostname && registry.endsWith(`.${hostname}`);
}

/** the form of OAuth 2 that exchanges an identity token for one that the registry accepts */
function refreshForm(token: string, wanted: Record<string, string>): URLSearchParams {
  return new URLSearchParams({
    grant_type: "refresh_token",
    client_id: "sandkeep",
    refresh_token: token,
    ...wanted,
  });
}

function withQuery(url: URL, fields: Record<string, string>): URL {
  const full = new URL(url);
  for (const [name, value] of Object.entries(fields)) full.searchParams.set(name, value);
  return full;
}

const tokenFile = z.object({ token: z.string().optional(), access_token: z.string().optional() });

function tokenIn(content: Buffer): string | undefined {
  try {
    const { token, access_token: other } = tokenFile.parse(JSON.parse(content.toString()));
    const found = token ?? other;
    return found !== undefined && /^[\x21-\x7e]+$/.test(found) ? found : undefined;
  } catch {
    return undefined;
  }
}

/** the registry's own error message, if it has a plain one */
function reasonIn(said: Buffer): string {
  const [, code] = /"code"\s*:\s*"([A-Z_]{1,64})"/.exec(said.toString("latin1")) ?? [];
  return code === undefined ? "" : ` ${code}`;
}
