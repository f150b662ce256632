/** The pages, in the order of the rail. */

import type { ComponentType } from "preact";
import type { IconName } from "../parts/icon.ts";
import { Lazy } from "../parts/lazy.ts";

export interface Page {
  path: string;
  title: string;
  icon: IconName;
  view: ComponentType<{ name?: string }>;
  /** whether only an admin key may read what it shows */
  isForAdmins?: boolean;
  /** whether it has a place in a phone's bar */
  isMain?: boolean;
  /** whether a line separates it from the page before */
  startsGroup?: boolean;
}

export const pages: Page[] = [
  {
    path: "overview",
    title: "Overview",
    icon: "overview",
    view: Lazy(async () => (await import("./overview.ts")).OverviewPage),
    isMain: true,
  },
  {
    path: "sandboxes",
    title: "Sandboxes",
    icon: "sandbox",
    view: Lazy(async () => (await import("./sandboxes.ts")).SandboxesPage),
    isMain: true,
  },
  {
    path: "snapshots",
    title: "Snapshots",
    icon: "snapshot",
    view: Lazy(async () => (await import("./snapshots.ts")).SnapshotsPage),
  },
  { path: "images", title: "Images", icon: "image", view: Lazy(async () => (await import("./images.ts")).ImagesPage) },
  { path: "drives", title: "Drives", icon: "drive", view: Lazy(async () => (await import("./drives.ts")).DrivesPage) },
  {
    path: "egress",
    title: "Egress",
    icon: "egress",
    view: Lazy(async () => (await import("./egress.ts")).EgressPage),
    isMain: true,
  },
  {
    path: "usage",
    title: "Usage",
    icon: "usage",
    view: Lazy(async () => (await import("./usage.ts")).UsagePage),
  },
  {
    path: "keys",
    title: "Keys & quotas",
    icon: "key",
    view: Lazy(async () => (await import("./keys.ts")).KeysPage),
    startsGroup: true,
  },
  { path: "events", title: "Events", icon: "events", view: Lazy(async () => (await import("./events.ts")).EventsPage) },
  { path: "audit", title: "Audit", icon: "audit", view: Lazy(async () => (await import("./audit.ts")).AuditPage) },
  {
    path: "doctor",
    title: "Doctor",
    icon: "doctor",
    view: Lazy(async () => (await import("./host.ts")).HostPage),
    isForAdmins: true,
  },
];
