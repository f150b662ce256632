/** The pages, in the order of the rail. */

import type { ComponentType } from "preact";
import { Lazy } from "../parts/lazy.ts";
import { SandboxesPage } from "./sandboxes.ts";

export interface Page {
  path: string;
  title: string;
  view: ComponentType<{ name?: string }>;
  /** whether only an admin key may read what it shows */
  isForAdmins?: boolean;
}

export const pages: Page[] = [
  { path: "sandboxes", title: "Sandboxes", view: SandboxesPage },
  { path: "snapshots", title: "Snapshots", view: Lazy(async () => (await import("./snapshots.ts")).SnapshotsPage) },
  { path: "images", title: "Images", view: Lazy(async () => (await import("./images.ts")).ImagesPage) },
  { path: "drives", title: "Drives", view: Lazy(async () => (await import("./drives.ts")).DrivesPage) },
  { path: "keys", title: "Keys & quotas", view: Lazy(async () => (await import("./keys.ts")).KeysPage) },
  { path: "events", title: "Events", view: Lazy(async () => (await import("./events.ts")).EventsPage) },
  {
    path: "host",
    title: "Host",
    view: Lazy(async () => (await import("./host.ts")).HostPage),
    isForAdmins: true,
  },
];
