/**
 * The socket on which the daemon sends the operator's settings and the policies of machines
 * (src/protocols/egress-control.ts has the lines).
 *
 * Policies have secrets in them. They are kept in memory only: after a restart of this process the daemon, which sees
 * its connection end, gives them again, and until then nothing gets out of a machine that has one.
 */

import { renameSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import type { CustomNetwork } from "../core/network/network-policy.ts";
import type { EgressSettings } from "../core/ports/egress-settings.ts";
import {
  type EgressProcessLine,
  egressControlVersion,
  readDaemonLine,
  writeControlLine,
} from "../protocols/egress-control.ts";
import type { Actors, Ask } from "./log/actors.ts";

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
  const say = (line: EgressProcessLine) => socket.write(writeControlLine(line));
  const ask: Ask = (line) => {
    const hasRoom = socket.writableLength < mostUnread;
    if (hasRoom) say(line);
    return hasRoom;
  };
  say({ v: egressControlVersion });
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

async function obey(written: string, controlled: Controlled): Promise<EgressProcessLine | undefined> {
  const read = readDaemonLine(written);
  // The error does not quote the line, which may hold a secret.
  if ("unreadable" in read) return { id: read.unreadable, error: "the egress process does not understand the order" };
  const { line } = read;
  if (line.kind === "commands") {
    for (const { question, command } of line.answers) controlled.actors.answered(question, command);
    return undefined;
  }
  try {
    if (line.kind === "settings") await controlled.configure(line.settings);
    // The daemon has checked the policy in all its parts before it took it.
    else if (line.kind === "set") await controlled.setPolicy(line.machine, line.network as CustomNetwork, line);
    else if (line.kind === "drop") controlled.dropPolicy(line.machine);
    else if (line.kind === "flush") await controlled.flush(line.machine);
    else controlled.keepPolicies(line.machines);
    return { id: line.id };
  } catch {
    const what = line.kind === "settings" ? "settings" : "policy";
    return { id: line.id, error: `the egress process cannot use the ${what}` };
  }
}
