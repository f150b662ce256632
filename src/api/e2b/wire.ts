/** The core's nouns as E2B prints them. */

import type { Sandbox, Session, Snapshot, TagValue } from "../../core/model/sandbox.ts";
import { labelOf } from "../../core/model/sandbox-label.ts";
import type { Booted } from "../../core/sandboxes/sandboxes.ts";
import { isOver } from "../../core/sessions/states.ts";

/** which of the functions of the program inside a sandbox its clients may count on: all of this version's */
export const envdVersion = "0.6.4";

/** the template of a sandbox that names no other */
export const defaultTemplate = "base";

/** a sandbox is paused when its session has ended and its files were kept */
export function stateOf(session: Session): "running" | "paused" {
  return isOver(session.state) ? "paused" : "running";
}

/** whether this vendor would still know the sandbox: what has ended and kept nothing is gone */
export function isThere(session: Session): boolean {
  return !isOver(session.state) || session.snapshottedAt !== undefined;
}

/** what is kept with a sandbox because it has to be shown as it was given */
export type Notes = { allowInternetAccess?: boolean; network?: { [key: string]: TagValue } };

export function notesOf({ notes }: Sandbox): Notes {
  return (notes?.e2b ?? {}) as Notes; // written by this dialect alone
}

/** what a client needs to work with a sandbox */
export interface Access {
  envdAccessToken: string;
  trafficAccessToken: string | null;
  /** host name, with a port where there is one, below which ports of sandboxes are found */
  domain: string;
}

export function sandbox({ sandbox: it }: Booted, access: Access): object {
  return { ...identity(it), envdVersion, ...access };
}

export function detail(booted: Booted, { envdAccessToken, domain }: Access, limits: { disk: number }): object {
  const { sandbox: it } = booted;
  const { allowInternetAccess = null, network } = notesOf(it);
  return {
    ...listed(booted, limits),
    envdAccessToken,
    domain,
    allowInternetAccess,
    ...(network && { network }),
    lifecycle: { autoResume: it.ingress?.wakes ?? false, onTimeout: it.persistent ? "pause" : "kill" },
  };
}

export function listed({ sandbox: it, session }: Booted, limits: { disk: number }): object {
  const { startedAt = session.requestedAt } = session;
  return {
    ...identity(it),
    // The sandbox's own start, which pauses do not move: lists are in its order.
    startedAt: time(it.createdAt),
    endAt: time(session.expiresAt ?? session.stoppedAt ?? startedAt + session.timeout),
    cpuCount: it.vcpus,
    memoryMB: it.memory,
    diskSizeMB: Math.floor(limits.disk / 2 ** 20),
    metadata: metadata(it),
    state: stateOf(session),
    envdVersion,
    volumeMounts: Object.entries(it.mounts).map(([path, { drive: name }]) => ({ name, path })),
  };
}

export function snapshot({ id, name }: Snapshot): object {
  return { snapshotID: id, names: name === undefined ? [] : [name] };
}

export function time(ms: number): string {
  return new Date(ms).toISOString();
}

/** `clientID` is there because older clients require one */
function identity(it: Sandbox): object {
  const template = it.base.imageName ?? defaultTemplate;
  return { templateID: template, alias: template, sandboxID: labelOf(it.id), clientID: "sandkeep" };
}

/** other wires have tags that are no strings */
function metadata({ tags }: Sandbox): Record<string, string> {
  const entries = Object.entries(tags).map(([key, value]) => [
    key,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  return Object.fromEntries(entries);
}
