/** What becomes of each decision: an event, which is told to a log (log-file.ts writes it). */

import type { EgressDecision, EgressTraffic } from "../../protocols/egress-log.ts";

export interface EgressEvent extends EgressDecision {
  machine: string;
}

export interface EgressLog {
  /** a decision was made */
  decided(event: EgressEvent): void;
  /** what an event was about has ended, after so many bytes */
  ended(event: EgressEvent, traffic: EgressTraffic): void;
  /** bytes to or from a host, while a connection goes on; `begun` with the first of them */
  moved(machine: string, host: string, traffic: EgressTraffic, begun?: boolean): void;
  /** so many decisions were made of which nothing is known */
  unseen(machine: string, count: number): void;
  /** resolves when what was told of a machine, or of all, is where readers find it */
  flush(machine?: string): Promise<void>;
}
