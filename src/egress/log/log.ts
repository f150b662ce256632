/** Each decision becomes an event in a log (log-file.ts writes it). */

import type { EgressDecision, EgressTraffic } from "../../protocols/egress-log.ts";

export interface EgressEvent extends EgressDecision {
  machine: string;
}

export interface EgressLog {
  /** a decision was made */
  decided(event: EgressEvent): void;
  /** the connection or flow of an event has ended, after this traffic */
  ended(event: EgressEvent, traffic: EgressTraffic): void;
  /** bytes to or from a host while a connection is open; `begun` with the first of them */
  moved(machine: string, host: string, traffic: EgressTraffic, begun?: boolean): void;
  /** number of refused packets without further details */
  unseen(machine: string, count: number): void;
  /** resolves when all events of a machine, or of all machines, are in the files */
  flush(machine?: string): Promise<void>;
}
