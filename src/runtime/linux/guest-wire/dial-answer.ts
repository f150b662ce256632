/** The answer to a request for a connection to a port inside; after it, the socket belongs to that connection. */

import type { Socket } from "node:net";
import { SandkeepError } from "../../../core/model/errors.ts";
import { headerLength, maxPayload, Type } from "../../../protocols/guest-frames.ts";
import { failure } from "./failure.ts";

/** waits for the one frame that answers DIAL; whatever follows it stays in the socket */
export async function dialAnswer(socket: Socket): Promise<void> {
  const header = await take(socket, headerLength);
  const length = header.readUInt32LE(0);
  if (length > maxPayload) throw new SandkeepError("internal", "Cannot connect: the sandbox's answer is malformed");
  const payload = length > 0 ? await take(socket, length) : Buffer.alloc(0);
  if (header.readUInt8(4) !== Type.ok) throw failure(payload);
}

/** exactly so many bytes, in paused mode */
function take(socket: Socket, length: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error) => {
      socket.off("readable", attempt);
      socket.off("end", ended);
      socket.off("error", done);
      if (error) reject(error);
    };
    const ended = () => done(new SandkeepError("gone", "Cannot connect: the sandbox closed the connection"));
    const attempt = () => {
      const chunk: Buffer | null = socket.read(length);
      if (chunk === null) return;
      done();
      resolve(chunk);
    };
    socket.on("readable", attempt);
    socket.on("end", ended);
    socket.on("error", done);
    attempt();
  });
}
