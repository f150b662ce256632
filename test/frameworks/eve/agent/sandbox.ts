/** The agent's sandbox: eve prepares it once, takes a snapshot, and makes each session's sandbox from that. */

import { defineSandbox } from "eve/sandbox";
import { VercelSandbox } from "eve/sandbox/vercel";

export const environment = VercelSandbox.environment({
  prepare: async (sandbox) => {
    const { exitCode, stderr } = await sandbox.run({ command: "echo prepared > seeded.txt" });
    if (exitCode !== 0) throw new Error(stderr);
  },
});

export default defineSandbox(() => environment.open({ networkPolicy: "deny-all" }));
