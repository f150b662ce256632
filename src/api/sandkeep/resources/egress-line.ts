/** A line of an egress log: decisions about outbound connections, or how many lines are missing. */

import { z } from "zod";
import { bytes, time } from "./values.ts";

const fields = {
  id: z.int().meta({ description: "Its position" }),
  at: time,
  dropped: z.int().optional().meta({ description: "Decisions that were too many to log" }),
  forgotten: z.int().optional().meta({ description: "Lines up to this one that are no longer kept" }),
  protocol: z.string().optional(),
  name: z.string().optional().meta({ description: "The requested name, or the one that resolved to the address" }),
  sni: z.string().optional(),
  address: z.string().optional(),
  port: z.int().optional(),
  method: z.string().optional(),
  path: z.string().optional(),
  status: z.int().optional(),
  type: z.string().optional().meta({ description: "Of a DNS query" }),
  allowed: z.boolean().optional(),
  reason: z.string().optional().meta({ description: "Why it was refused" }),
  failure: z.string().optional().meta({ description: "Why it failed although it was allowed" }),
  rule: z.string().optional(),
  command: z.string().optional().meta({ description: "Id of the command that opened it" }),
  program: z.string().optional(),
  count: z.int().optional().meta({ description: "Decisions that the line stands for" }),
  ended: z.int().optional().meta({ description: "Connections that have ended, whose bytes it counts" }),
  bytesIn: bytes.optional(),
  bytesOut: bytes.optional(),
};

export const egressLine = z
  .object(fields)
  .catchall(z.unknown())
  .meta({ id: "EgressLine", description: "A decision, with its host, rule, reason and command: see docs/egress.md" });

export const projectEgressLine = z
  .object({ session: z.string(), sandbox: z.string(), ...fields })
  .catchall(z.unknown())
  .meta({ id: "ProjectEgressLine", description: "A decision about a connection of a session: see docs/egress.md" });
