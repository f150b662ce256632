/**
 * Sessions of browsers, for people who signed in to the dashboard with a key. A session is two values:
 *
 *   cookie     HttpOnly, SameSite=Strict; the browser sends it with every request to this host
 *   binding    the page keeps it in its origin's storage, and sends it as X-Sandkeep-Session or, with a WebSocket, as the
 *              subprotocol "sandkeep.session.<binding>"
 *
 * Neither is of use alone: cookies reach other ports and sibling host names of the same machine, where code of sandboxes
 * may answer, but the storage of our origin does not. A request that changes something, and every WebSocket, must also
 * come from a page of our own origin. Both values are signatures of this daemon, so sessions survive its restart. They
 * end with their key, and when their person signs out (sign-outs.ts).
 */

import { randomBytes, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Caller } from "../../../core/model/sandbox.ts";
import type { Service } from "../dialect.ts";
import { SignOuts } from "./sign-outs.ts";

/** What of a request tells who sends it; header names in lower case. */
export interface Sender {
  method: string;
  header(name: string): string | undefined;
}

export interface OpenedSession {
  /** the value of a Set-Cookie header */
  setCookie: string;
  binding: string;
  expiresAt: number;
}

export const bindingHeader = "x-sandkeep-session";
const bindingProtocol = /(?:^|,)\s*sandkeep\.session\.([0-9a-f]{16,256})\s*(?:,|$)/;

/** longest time without a visit, in ms */
const longestIdle = 12 * 3600 * 1000;

const claims = z.strictObject({ team: z.string(), key: z.string(), until: z.number(), nonce: z.string() });
type Claims = z.output<typeof claims>;

type Needed = Pick<Service, "core" | "sign" | "clock" | "publicUrl" | "signOuts">;

export class BrowserSessions {
  readonly #service: Needed;
  readonly #signOuts: SignOuts;

  constructor(service: Needed) {
    this.#service = service;
    this.#signOuts = service.signOuts ?? signOutsOfProcess;
  }

  /** whether a request names a session instead of a key */
  isUsedBy(sender: Sender): boolean {
    return sender.header("authorization") === undefined && bindingOf(sender) !== undefined;
  }

  /** a new session of this caller */
  open(caller: Caller, sender: Sender): OpenedSession {
    return this.#issue(caller, sender, randomBytes(16).toString("base64url"));
  }

  /** a new cookie of the same session; signing out ends the old one, too */
  async renew(sender: Sender): Promise<{ caller: Caller; opened: OpenedSession }> {
    const caller = await this.authenticate(sender);
    return { caller, opened: this.#issue(caller, sender, this.#claimsOf(sender).nonce) };
  }

  #issue({ teamId: team, keyId: key }: Caller, sender: Sender, nonce: string): OpenedSession {
    if (key === undefined) throw refused("the caller has no key");
    const until = this.#service.clock() + longestIdle;
    const payload = encode({ team, key, until, nonce });
    const cookie = `${payload}.${this.#service.sign(`dashboard cookie ${payload}`)}`;
    return {
      setCookie: this.#setCookie(sender, cookie, longestIdle / 1000),
      binding: this.#bindingFor(nonce),
      expiresAt: until,
    };
  }

  /** the caller of a request; throws `unauthenticated` or `forbidden` */
  async authenticate(sender: Sender): Promise<Caller> {
    const { team, key } = this.#claimsOf(sender);
    if (isChange(sender)) this.requireOwnPage(sender);
    return this.#service.core.access.callerOf(team, key);
  }

  /** names the session of a request, which stays the same when it is renewed */
  visitorOf(sender: Sender): string {
    return this.#claimsOf(sender).nonce;
  }

  /**
   * the caller of a request that carries no binding, if it has the cookie of this session: for an address that a page has
   * just got for its session, and that nobody else can know
   */
  async callerAt(sender: Sender, visitor: string): Promise<Caller | undefined> {
    const found = this.#cookiesAt(sender).find(
      ({ nonce, until }) => same(nonce, visitor) && until > this.#service.clock(),
    );
    if (!found || this.#signOuts.has(found.nonce)) return undefined;
    return this.#service.core.access.callerOf(found.team, found.key);
  }

  /** ends the session of a request; returns a Set-Cookie header that removes the cookie */
  close(sender: Sender): string {
    // Until the last of its cookies has expired, which may have been renewed just now.
    this.#signOuts.add(this.#claimsOf(sender).nonce, this.#service.clock() + longestIdle);
    return this.#setCookie(sender, "", 0);
  }

  /** refuses a request that no page of our own origin has sent */
  requireOwnPage(sender: Sender): void {
    const origin = sender.header("origin");
    if (origin !== undefined && this.#ownOrigins(sender).includes(origin)) return;
    throw new SandkeepError("forbidden", "Cannot take this request: it comes from a page of another origin");
  }

  #ownOrigins(sender: Sender): string[] {
    const published = new URL(this.#service.publicUrl());
    const host = sender.header("host") ?? "";
    // The scheme that browsers see is the one that people are told, also behind a proxy.
    return [published.origin, `${published.protocol}//${host.toLowerCase()}`];
  }

  #claimsOf(sender: Sender): Claims {
    const binding = bindingOf(sender) ?? "";
    const found = this.#cookiesAt(sender).find(({ nonce }) => same(binding, this.#bindingFor(nonce)));
    if (found === undefined) throw refused("there is no such session");
    if (found.until <= this.#service.clock()) throw refused("the session has expired");
    if (this.#signOuts.has(found.nonce)) throw refused("the session has ended");
    return found;
  }

  /** what the cookies of a request say that this daemon has signed */
  #cookiesAt(sender: Sender): Claims[] {
    return cookiesOf(sender.header("cookie") ?? "", this.#cookieName(sender))
      .filter((value) => this.#isOurs(value))
      .map((value) => claims.parse(JSON.parse(Buffer.from(value.split(".")[0] ?? "", "base64url").toString())));
  }

  #isOurs(cookie: string): boolean {
    const [payload = "", signature = ""] = cookie.split(".");
    return same(signature, this.#service.sign(`dashboard cookie ${payload}`));
  }

  /** the same for all renewals of a session: a page that is left meanwhile gets the new cookie, and no binding */
  #bindingFor(nonce: string): string {
    return this.#service.sign(`dashboard binding ${nonce}`);
  }

  #isSecure(): boolean {
    return this.#service.publicUrl().startsWith("https:");
  }

  /** over plain HTTP all ports of a host share their cookies, so that each daemon has a name of its own */
  #cookieName(sender: Sender): string {
    const port = URL.parse(`http://${sender.header("host")}`)?.port;
    return this.#isSecure() ? "__Host-sandkeep" : `sandkeep_${port || 80}`;
  }

  #setCookie(sender: Sender, value: string, seconds: number): string {
    const secure = this.#isSecure() ? "; Secure" : "";
    return `${this.#cookieName(sender)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
  }
}

/** of all services without sign-outs of their own */
const signOutsOfProcess = new SignOuts();

/** the sender of a web request */
export function senderOf({ method, headers }: Request): Sender {
  return { method, header: (name) => headers.get(name) ?? undefined };
}

function isChange({ method, header }: Sender): boolean {
  return (method !== "GET" && method !== "HEAD") || header("upgrade") !== undefined;
}

function bindingOf(sender: Sender): string | undefined {
  return sender.header(bindingHeader) ?? bindingProtocol.exec(sender.header("sec-websocket-protocol") ?? "")?.[1];
}

function encode(value: Claims): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/**
 * every cookie of this name: the page of a sandbox's port may have set any number of others, and browsers send those of
 * longer paths first. The longest header that Node.js takes bounds their number
 */
function cookiesOf(header: string, name: string): string[] {
  const pairs = header.split(";").map((pair) => pair.trim().split("="));
  return pairs.flatMap(([key, value = ""]) => (key === name ? [value] : []));
}

function same(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function refused(why: string): SandkeepError {
  return new SandkeepError("unauthenticated", `Cannot authenticate: ${why}`);
}
