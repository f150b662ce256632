/**
 * What becomes of each decision: an event. Events of one machine are written as lines of JSON to `egress.jsonl` in its
 * folder, and to `egress.1.jsonl` what was there before that was full (log-file.ts). A line:
 *
 *   {"id":7,"at":1763194000123,"protocol":"tls","name":"api.test","address":"93.184.216.34","port":443,
 *    "allowed":true,"rule":"allow *.test","command":"cmd_3f…","program":"curl",
 *    "count":1,"ended":1,"bytesIn":5120,"bytesOut":840}
 *
 *   id        counts up by one from line to line, also over a restart of the process: where a reader was, and what it
 *             missed because it is no longer kept
 *   at        when the first of the decisions was made, in ms since 1970
 *   count     decisions that the line stands for: equal ones within a moment share a line
 *   ended     connections that have ended, whose bytes the line counts; they may have been decided in an earlier line
 *   dropped   events for which there was no room, with nothing else on the line but `id` and `at`
 *
 * The rest are the fields of EgressDecision, each text cut after 512 characters. Lines of equal fields add up: to how
 * often, and to how many bytes.
 */

import type { EgressDecision, EgressTraffic } from "../../core/network/egress-log.ts";

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
