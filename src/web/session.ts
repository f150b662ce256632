/**
 * Who uses this page. The daemon knows a signed-in browser by its cookie and by the binding that this page keeps in the
 * storage of its origin; neither is enough alone. The key itself is never stored.
 */

import { signal } from "@preact/signals";
import { ApiError, SandkeepClient } from "../client/client.ts";
import type { Output } from "../client/types.ts";
import { place as here } from "./place.ts";
import { visible } from "./text.ts";

export interface Visitor {
  team: string;
  key: string;
  admin: boolean;
  /** whether the key may only read */
  readOnly: boolean;
}

/** The place of the visitor on this page, and the others to choose from. */
export interface Standing extends Output<"getCaller"> {
  /** that the key may act for */
  teams: Output<"listTeams">["teams"];
  /** of the team of this page that the key may use */
  projects: Output<"listProjects">["projects"];
}

const place = "sandkeep.binding";

/** "unknown" until the daemon has answered; undefined when signed out */
export const visitor = signal<Visitor | "unknown" | undefined>("unknown");
/** undefined until the daemon has answered */
export const standing = signal<Standing | undefined>(undefined);
/** why the key may not see the project of this page */
export const noStanding = signal("");
/** a link of another key than the one that this browser is signed in with; undone until somebody agrees */
export const otherLink = signal<{ once: string; text: string } | undefined>(undefined);
/** why the last attempt to sign in failed */
export const signInProblem = signal("");
/** whether the last request reached the daemon, and since when it did not */
export const away = signal<number | undefined>(undefined);

export function isAdmin(): boolean {
  const who = visitor.value;
  return who !== undefined && who !== "unknown" && who.admin;
}

/** why a key may change nothing; undefined for one that may */
export function whyReadOnly(): string | undefined {
  const who = visitor.value;
  return who !== undefined && who !== "unknown" && who.readOnly ? "Your key may only read" : undefined;
}

export function binding(): string {
  return localStorage.getItem(place) ?? "";
}

export const client = new SandkeepClient({
  url: location.origin,
  headers: () => ({ "x-sandkeep-session": binding() }),
  fetch: reach,
  ...(here && { scope: here }),
});

/** signs in with the one-time code of the address, or continues the session of an earlier visit */
export async function enter(): Promise<void> {
  const [, once] = /^#once=([0-9a-f]{32})$/.exec(location.hash) ?? [];
  if (once !== undefined) {
    history.replaceState(null, "", location.pathname + location.search);
    await signIn({ once });
    if (visitor.value !== undefined) return;
  }
  if (binding() === "") {
    visitor.value = undefined;
    return;
  }
  await admitted(await reach(new Request("/ui/session", { headers: { "x-sandkeep-session": binding() } })));
}

/** a link replaces the session of another key only with `replace` */
export async function signIn(credentials: { key: string } | { once: string; replace?: true }): Promise<void> {
  signInProblem.value = "";
  const headers = { "content-type": "application/json", ...(binding() && { "x-sandkeep-session": binding() }) };
  try {
    const body = JSON.stringify(credentials);
    const response = await reach(new Request("/ui/session", { method: "POST", headers, body }));
    if (await admitted(response.clone())) return;
    const { error } = (await response.json()) as { error?: { message?: string } }; // the daemon's shape of errors
    const text = visible(error?.message ?? "The daemon refused");
    if (response.status === 409 && "once" in credentials) otherLink.value = { once: credentials.once, text };
    else signInProblem.value = text;
  } catch {
    signInProblem.value = "The daemon does not answer";
  }
}

export async function signOut(): Promise<void> {
  const headers = { "x-sandkeep-session": binding() };
  await reach(new Request("/ui/session", { method: "DELETE", headers })).catch(() => undefined);
  localStorage.removeItem(place);
  visitor.value = undefined;
}

/** the daemon's sentence about what went wrong, which may quote foreign names */
export function sentence(error: unknown): string {
  if (!(error instanceof ApiError)) return "The daemon does not answer";
  return visible(error.requestId ? `${error.message} (request ${error.requestId})` : error.message);
}

async function admitted(response: Response): Promise<boolean> {
  if (!response.ok) {
    visitor.value = undefined;
    return false;
  }
  const { binding: given, ...who } = (await response.json()) as Visitor & { binding: string }; // the daemon's answer
  localStorage.setItem(place, given);
  visitor.value = who;
  return true;
}

async function reach(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    away.value = undefined;
    if (response.status === 401 && visitor.value !== "unknown") visitor.value = undefined;
    return response;
  } catch (error) {
    if (!request.signal.aborted) away.value ??= Date.now();
    throw error;
  }
}
