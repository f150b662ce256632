/** A name server on loopback that answers every name with 127.0.0.1, and programs that ask only it. */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { decode, encode } from "dns-packet";
import { tempDir, type Undo } from "../harness.ts";

export interface LoopbackNames {
  /** the command that runs this one with the name server as its only resolver, in a mount namespace of its own */
  command(program: string, ...args: string[]): [string, ...string[]];
}

export async function loopbackNames(undo: Undo): Promise<LoopbackNames> {
  const server = createSocket("udp4", (question, { port, address }) => {
    const { id = 0, questions = [] } = decode(question);
    const answers = questions.flatMap(({ name, type }) =>
      type === "A" ? [{ name, type, ttl: 60, data: "127.0.0.1" } as const] : [],
    );
    server.send(encode({ id, type: "response", questions, answers }), port, address);
  });
  // Resolvers are asked at port 53, so each server has an address of its own.
  const address = `127.53.${process.pid & 0xff}.${1 + ((process.pid >> 8) % 254)}`;
  server.bind(53, address);
  await once(server, "listening");
  undo.defer(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const file = join(await tempDir(undo), "resolv.conf");
  await writeFile(file, `nameserver ${address}\n`);
  const script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"';
  return { command: (program, ...args) => ["unshare", "--mount", "sh", "-c", script, file, program, ...args] };
}
