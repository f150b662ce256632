/** Tells a program that it is refused, in its own protocol, so that it need not guess: a TLS alert, or an HTTP page. */

import type { Socket } from "node:net";
import type { Attempt, Verdict } from "../policy/policy.ts";
import type { Opening } from "./opening.ts";

type Denial = Extract<Verdict, { allowed: false }>;

/** TLS: a record (21) of version 3.3 with a fatal (2) alert "access denied" (49) */
const accessDenied = Buffer.from([21, 3, 3, 0, 2, 2, 49]);
/** how long a program may take to read the refusal, in ms */
const patience = 1_000;

/** settles when the connection is closed */
export function refuse(inside: Socket, opening: Opening, attempt: Attempt, denial: Denial): Promise<void> {
  return new Promise((resolve) => {
    inside.on("error", () => {});
    inside.once("close", () => resolve());
    if (inside.destroyed) return resolve();
    const words =
      opening.kind === "tls" ? accessDenied : opening.kind === "http" ? page(opening, attempt, denial) : undefined;
    if (!words) {
      inside.resetAndDestroy();
      return;
    }
    const timer = setTimeout(() => inside.resetAndDestroy(), patience);
    inside.once("close", () => clearTimeout(timer));
    // What it still sends is read and dropped: unread bytes would turn the end into a reset that loses the refusal.
    inside.resume();
    inside.end(words);
    inside.once("end", () => inside.destroy());
  });
}

function page(
  opening: Extract<Opening, { kind: "http" }>,
  attempt: Attempt,
  { reason, rule, missing }: Denial,
): Buffer {
  const { method, path, host } = opening;
  const url = `http://${host ?? attempt.address}${path.startsWith("/") ? path : "/"}`;
  const message = `Cannot ${method} ${url}: ${reason}${advice(missing)}`;
  const { address, port } = attempt;
  const error = { code: "egress_denied", message, reason, host, address, port, method, path, rule, missing };
  const body = Buffer.from(`${JSON.stringify({ error }, null, 2)}\n`);
  const head = [
    "HTTP/1.1 403 Forbidden",
    "content-type: application/json",
    `content-length: ${body.length}`,
    "cache-control: no-store",
    "x-sandkeep-egress: denied",
    "connection: close",
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), method === "HEAD" ? Buffer.alloc(0) : body]);
}

function advice(missing: Denial["missing"]): string {
  if (missing?.allow) return `; add "${missing.allow[0]}" to the policy's "allow"`;
  if (missing?.subnets)
    return `; add "${missing.subnets.allow[0]}" to "subnets.allow", or use https and allow its name`;
  return "";
}
