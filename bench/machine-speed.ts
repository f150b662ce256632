/**
 * How fast this machine is now: how many requests a second eight callers get from a plain Node server that does nothing.
 * Goals in milliseconds and in requests a second were set on a machine where the daemon's /health did 21,855, and scale
 * with that. A plain server does somewhat more than /health, so the scaled goals are rather too strict.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { timed, verdict } from "./measure.ts";
import { RawClient } from "./raw-client.ts";

export const callers = 8;
/** of the machine for which the goals were set */
const ratedSpeed = 21_855;
const requests = 8000;
const program = `require("node:http").createServer((_, response) => response.end("ok"))
  .listen(0, "127.0.0.1", function () { console.log(this.address().port); })`;

/** requests a second; the server has a process of its own, as the daemon has */
export async function machineSpeed(): Promise<number> {
  const server = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [port] = await once(server.stdout, "data");
    const url = `http://127.0.0.1:${String(port).trim()}`;
    const clients = await Promise.all(Array.from({ length: callers }, () => RawClient.open({ url, key: "none" })));
    await shared(clients, requests / 4, (client) => client.request("GET", "/"));
    const { took } = await timed(() => shared(clients, requests, (client) => client.request("GET", "/")));
    for (const client of clients) client.close();
    return (requests / took) * 1000;
  } finally {
    server.kill();
  }
}

/** so many calls in all, by callers that each begin the next when theirs has ended */
export async function shared<T>(those: T[], count: number, call: (one: T) => Promise<unknown>): Promise<void> {
  let left = count;
  await Promise.all(
    those.map(async (one) => {
      while (left-- > 0) await call(one);
    }),
  );
}

export function speedInWords(speed: number): string {
  const share = (speed / ratedSpeed).toFixed(2);
  return `  a plain Node server answers ${speed.toFixed(0)} a second with ${callers} callers: ${share} x the machine of the goals`;
}

/** the verdict by the goal as it is, and by the goal for a machine of this speed */
export function scaledVerdict(
  speed: number,
  what: string,
  value: number,
  goal: number,
  unit: "ms" | "a second",
): string {
  const bound = unit === "ms" ? "most" : "least";
  const scaled = unit === "ms" ? (goal * ratedSpeed) / speed : (goal * speed) / ratedSpeed;
  return [
    verdict(what, value, goal, unit, bound),
    verdict(`${what}, for this machine's speed`, value, Number(scaled.toPrecision(3)), unit, bound),
  ].join("\n");
}
