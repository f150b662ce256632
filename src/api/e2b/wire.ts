/** The core's nouns as E2B prints them. */

import type { Sandbox, Session } from "../../core/model/sandbox.ts";
import { labelOf } from "../../core/model/sandbox-label.ts";
import type { Booted } from "../../core/sandboxes/sandboxes.ts";
import { isOver } from "../../core/sessions/states.ts";

/** which of the functions of the program inside a sandbox its clients may count on: all of this version's */
export const envdVersion = "0.6.4";

/** a sandbox that names no other template */
export const defaultTemplate = "base";

/** a sandbox is paused when its session has ended and its files were kept */
export function stateOf(session: Session): "running" | "paused" {
  return isOver(session.state) ? "paused" : "running";
}

/** whether this vendor would still know the sandbox: what has ended and kept nothing is gone */
export function isThere(session: Session): boolean {
  return !isOver(session.state) || session.snapshottedAt !== undefined;
}

/** what a client needs to work with a sandbox */
export interface Access {
  envdAccessToken: string;
  /** host name, with a port where there is one, below which ports of sandboxes are found */
  domain: string;
}

export function sandbox({ sandbox: it }: Booted, access: Access): object {
  return { ...identity(it), envdVersion, ...access };
}

export function detail(booted: Booted, access: Access, limits: { disk: number }): object {
  return { ...listed(booted, limits), ...access };
}

export function listed({ sandbox: it, session }: Booted, limits: { disk: number }): object {
  return {
    ...identity(it),
    // The sandbox's own start, which pauses do not move: lists are in its order.
    startedAt: time(it.createdAt),
    endAt: time(session.expiresAt ?? session.stoppedAt ?? (session.startedAt ?? session.requestedAt) + session.timeout),
    cpuCount: it.vcpus,
    memoryMB: it.memory,
    diskSizeMB: Math.floor(limits.disk / 2 ** 20),
    metadata: metadata(it),
    state: stateOf(session),
    envdVersion,
  };
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
