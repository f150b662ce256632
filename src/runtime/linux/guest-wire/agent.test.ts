/** The daemon's side of an agent, against one of an older release: it lives on when the daemon is a newer one. */

import { createServer } from "node:net";
import { constants } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { FrameParser, FrameReader, FrameWriter, Type, What, wireVersion } from "../../../protocols/guest-frames.ts";
import { Agent } from "./agent.ts";

const alone = 0x100;

test("a signal for one process reaches the group where the agent knows no other", async () => {
  const { agent, signals } = await oldAgent();
  await agent.signal("cmd", 15, true);
  expect(signals).toEqual([15 + alone, 15]);
  await expect(agent.signal("cmd", 64, false)).rejects.toMatchObject({ code: "invalid" });
  expect(signals).toEqual([15 + alone, 15, 64]);
});

test("standard input that is counted is refused with a sentence", async () => {
  const { agent } = await oldAgent();
  const refusal = {
    code: "unsupported",
    message: "Cannot write to the command's standard input: an older release started the sandbox",
  };
  await expect(agent.given("cmd")).rejects.toMatchObject(refusal);
  await expect(agent.feed("cmd", Buffer.from("x"), 0, new AbortController().signal)).rejects.toMatchObject(refusal);
});

/** one that knows signals up to 63 and no flag, and no request that is newer; which signals it was asked for */
async function oldAgent(): Promise<{ agent: Agent; signals: number[] }> {
  const signals: number[] = [];
  const folder = await tempDir();
  const server = createServer((socket) => {
    const parser = new FrameParser();
    socket.on("data", (chunk) => {
      for (const { type, id, payload } of parser.push(chunk)) socket.write(answer(type, id, new FrameReader(payload)));
    });
  });
  const socket = join(folder, "agent.sock");
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  onTestFinished(() => void server.close());
  const agent = new Agent({ socket, journal: folder, outputLimit: 1, journalLimit: 1 });
  await agent.open();
  onTestFinished(() => agent.close());
  return { agent, signals };

  function answer(type: number, id: number, request: FrameReader): Buffer {
    if (type === Type.hello) return new FrameWriter().u32(wireVersion).u32(1).frame(Type.ok, id);
    if (type === Type.commands) return new FrameWriter().u32(0).frame(Type.ok, id);
    if (type !== Type.signal) return refusal(id, constants.errno.ENOSYS);
    request.str();
    const signal = request.u32();
    signals.push(signal);
    return signal < 64 ? new FrameWriter().frame(Type.ok, id) : refusal(id, constants.errno.EINVAL);
  }
}

function refusal(id: number, errno: number): Buffer {
  return new FrameWriter().u32(errno).u8(What.request).str("Cannot do it").frame(Type.fail, id);
}
