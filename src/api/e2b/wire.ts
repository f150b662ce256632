/** Prints the core's objects as E2B's JSON. */

import type { Sandbox, Session, Snapshot, TagValue } from "../../core/model/sandbox.ts";
import { labelOf } from "../../core/model/sandbox-label.ts";
import { templateOfImage } from "../../core/model/template.ts";
import type { Booted } from "../../core/sandboxes/sandboxes.ts";
import { isAsleep, isOver } from "../../core/sessions/states.ts";

/** the version of envd that clients see: they may use all of its functions */
export const envdVersion = "0.6.4";

/** the name of the default template */
export const defaultTemplate = "base";

/** the state of a sandbox that exists: paused with its memory, or when its session has ended with its files kept */
export function stateOf(session: Session): "running" | "paused" {
  return isAsleep(session.state) ? "paused" : "running";
}

/** whether the sandbox exists for this vendor: one that has ended without a snapshot does not */
export function isThere(session: Session): boolean {
  return !isOver(session.state) || session.snapshottedAt !== undefined;
}

/** settings that are stored with a sandbox, to show them as the client gave them */
export type Notes = {
  allowInternetAccess?: boolean;
  /** the template that it was made from, by its name or as the client named it; a snapshot leaves none */
  template?: string;
  network?: { [key: string]: TagValue };
};

export function notesOf({ notes }: Sandbox): Notes {
  return (notes?.e2b ?? {}) as Notes; // written by this dialect alone
}

/** what a client needs to work with a sandbox */
export interface Access {
  envdAccessToken: string;
  trafficAccessToken: string | null;
  /** host name, with a port if needed, below which names lead to ports of sandboxes */
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
    // The sandbox's creation, which pauses do not change: lists are sorted by it.
    startedAt: time(it.createdAt),
    endAt: time(session.expiresAt ?? session.stoppedAt ?? session.pausedAt ?? startedAt + session.timeout),
    cpuCount: it.vcpus,
    memoryMB: it.memory,
    diskSizeMB: Math.floor(limits.disk / 2 ** 20),
    metadata: metadata(it),
    state: stateOf(session),
    envdVersion,
    volumeMounts: Object.entries(it.mounts).map(([path, { drive: name }]) => ({ name, path })),
  };
}

/** its names have the slug of its team and a tag, as clients expect */
export function snapshot({ id, name }: Snapshot, slug: string): object {
  const tagged = name?.includes(":") ? name : `${name}:default`;
  return { snapshotID: `${id}:default`, names: name === undefined ? [] : [`${slug}/${tagged}`] };
}

export function time(ms: number): string {
  return new Date(ms).toISOString();
}

/** what programs inside find in their environment about their sandbox */
export function variables(it: Sandbox): Record<string, string> {
  return {
    E2B_SANDBOX: "true",
    E2B_SANDBOX_ID: labelOf(it.id),
    E2B_TEAM_ID: it.teamId,
    E2B_TEMPLATE_ID: templateIdOf(it),
  };
}

function templateIdOf(it: Sandbox): string {
  const image = it.base.imageName ?? defaultTemplate;
  return templateOfImage(image) ?? notesOf(it).template ?? image;
}

/** older clients require `clientID` */
function identity(it: Sandbox): object {
  const templateID = templateIdOf(it);
  return { templateID, alias: notesOf(it).template ?? templateID, sandboxID: labelOf(it.id), clientID: "sandkeep" };
}

/** tags of other wires may not be strings */
function metadata({ tags }: Sandbox): Record<string, string> {
  const entries = Object.entries(tags).map(([key, value]) => [
    key,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  return Object.fromEntries(entries);
}
