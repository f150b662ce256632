/**
 * The redirection of this process's requests to a vendor. It stays as long as the process does, so a test file that
 * imports this has a process of its own (`test/runner/tiers.ts`).
 */

import type { TestDaemon } from "../harness/daemon.ts";
import { preload } from "./clients.ts";

/** redirects this process's requests to the vendor to the daemon, as `sandkeep/redirect` does for its users */
export async function redirectThisProcess(daemon: TestDaemon): Promise<void> {
  process.env.SANDKEEP_URL = daemon.url;
  await import(preload);
}
