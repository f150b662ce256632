/**
 * Where the daemon tells the egress process what the operator says and what machines may reach: a unix socket in the runtime's own folder, which
 * nobody but root can enter. One JSON value a line; each order is answered when it is in force:
 *
 *   {"id":0,"kind":"settings","settings":{"deny":["10.0.0.0/8"],…}}      for all machines         {"id":0}
 *   {"id":1,"kind":"set","machine":"m0","network":{"mode":"custom",…}}   its policy from now on   {"id":1}
 *            "fresh":true  nothing has run in it yet, so nothing of it is open
 *   {"id":2,"kind":"drop","machine":"m0"}                                it has none any more     {"id":2}
 *   {"id":3,"kind":"keep","machines":["m0"]}                             all others have ended    {"id":3}
 *   {"id":4,"kind":"flush","machine":"m0"}                               its log is written       {"id":4}
 *                                                                        what cannot be done      {"id":5,"error":"…"}
 *
 * The egress process asks in turn which commands processes belong to, and takes silence for an answer:
 *
 *   {"questions":[{"question":5,"machine":"m0","ancestry":[[12,10,1763194000123],…]},…]}
 *                                        {"kind":"commands","answers":[{"question":5,"command":"cmd_3f…"},…]}
 *
 * Policies have secrets in them. They are kept in memory only: after a restart of this process the daemon, which sees
 * its connection end, gives them again, and until then nothing gets out of a machine that has one.
 */

import { renameSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { z } from "zod";
import type { CustomNetwork } from "../core/network/network-policy.ts";
import type { EgressSettings } from "../core/ports/egress-settings.ts";
import type { Actors } from "./log/actors.ts";
import { egressSettings } from "./settings.ts";

export interface Controlled {
  setPolicy(machine: string, network: CustomNetwork, options: { fresh: boolean }): Promise<void>;
  dropPolicy(machine: string): void;
  keepPolicies(machines: string[]): void;
  flush(machine: string): Promise<void>;
  configure(settings: EgressSettings): Promise<void>;
  actors: Actors;
}

/** no policy that the daemon takes is longer, in bytes */
const longestLine = 256 << 20;
/** a daemon that has left so much unread is not asked, in bytes: sandboxes make questions as fast as they like */
const mostUnread = 1 << 20;

const network = z.looseObject({
  mode: z.literal("custom"),
  domains: z.array(z.looseObject({ domain: z.string(), rules: z.array(z.looseObject({ action: z.looseObject({}) })) })),
  allowedCidrs: z.array(z.string()),
  deniedCidrs: z.array(z.string()),
});
const order = z.discriminatedUnion("kind", [
  z.object({ id: z.int(), kind: z.literal("settings"), settings: egressSettings }),
  z.object({ id: z.int(), kind: z.literal("set"), machine: z.string(), network, fresh: z.boolean() }),
  z.object({ id: z.int(), kind: z.literal("drop"), machine: z.string() }),
  z.object({ id: z.int(), kind: z.literal("flush"), machine: z.string() }),
  z.object({ id: z.int(), kind: z.literal("keep"), machines: z.array(z.string()) }),
  z.object({
    kind: z.literal("commands"),
    answers: z.array(z.object({ question: z.int(), command: z.string().optional() })),
  }),
]);

/** resolves when it listens: at a path, or on a descriptor that another process has made ready */
export function openControl(path: string | number, controlled: Controlled): Promise<Server> {
  const server = createServer((socket) => serve(socket, controlled));
  if (typeof path === "number") {
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen({ fd: path }, () => resolve(server));
    });
  }
  // A process that ends takes the name away under which it listened: ours must not be the name of the next one.
  const own = `${path}.${process.pid}`;
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(own, () => {
      renameSync(own, path);
      resolve(server);
    });
  });
}

function serve(socket: Socket, controlled: Controlled): void {
  let parts: string[] = [];
  let length = 0;
  const say = (line: object) => socket.write(`${JSON.stringify(line)}\n`);
  const ask = (line: object) => {
    const hasRoom = socket.writableLength < mostUnread;
    if (hasRoom) say(line);
    return hasRoom;
  };
  socket.once("close", controlled.actors.connected(ask));
  socket.setEncoding("utf8");
  socket.on("error", () => socket.destroy());
  socket.on("data", (text: string) => {
    const [rest = "", ...lines] = text.split("\n").reverse();
    for (const line of lines.reverse()) {
      const whole = parts.join("") + line;
      parts = [];
      length = 0;
      void obey(whole, controlled).then((answer) => answer && say(answer));
    }
    parts.push(rest);
    length += rest.length;
    if (length > longestLine) socket.destroy();
  });
}

async function obey(line: string, controlled: Controlled): Promise<{ id: number; error?: string } | undefined> {
  const parsed = order.safeParse(parseJson(line));
  // What was wrong is not said, as it may be a secret.
  if (!parsed.success) return { id: idIn(line), error: "the egress process does not understand the order" };
  const { data } = parsed;
  if (data.kind === "commands") {
    for (const { question, command } of data.answers) controlled.actors.answered(question, command);
    return undefined;
  }
  try {
    // The daemon has checked the policy in all its parts before it took it.
    if (data.kind === "settings") await controlled.configure(data.settings);
    else if (data.kind === "set")
      await controlled.setPolicy(data.machine, data.network as unknown as CustomNetwork, data);
    else if (data.kind === "drop") controlled.dropPolicy(data.machine);
    else if (data.kind === "flush") await controlled.flush(data.machine);
    else controlled.keepPolicies(data.machines);
    return { id: data.id };
  } catch {
    const what = data.kind === "settings" ? "settings" : "policy";
    return { id: data.id, error: `the egress process cannot use the ${what}` };
  }
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function idIn(line: string): number {
  return Number(/^\{"id":(\d+),/.exec(line)?.[1] ?? 0);
}
