/** What an examination of the host says about sandboxes. */

export interface Diagnosis {
  /** whether sandboxes can run */
  ok: boolean;
  /** phrases about the isolation of a sandbox on this host */
  isolation: string[];
  findings: Finding[];
}

export interface Finding {
  name: string;
  /** `missing` means that sandboxes cannot run, `warning` that they run with less */
  state: "ok" | "warning" | "missing";
  /** a phrase */
  detail: string;
  /** the command that fixes it */
  fix?: string;
}
