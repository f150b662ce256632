/** The daemon's side of an agent: against one of an older release, which lives on under a newer daemon, and in a failed store. */

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { constants } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { FrameParser, FrameReader, FrameWriter, Type, What, wireVersion } from "../../../protocols/guest-frames.ts";
import { Agent } from "./agent.ts";

const alone = 0x100;
/** a signal to which there is no answer */
const silence = 63;

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

test("an agent whose journal cannot be read lives, is gone when it dies, and its commands with it", async () => {
  const { agent, end } = await oldAgent({ running: "cmd" });
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  agent.whenGone(resolve);
  const command = agent.process("cmd");
  // As in a store that has failed, each read is an error other than that nothing is there.
  rmSync(agent.journal, { recursive: true });
  mkdirSync(join(agent.journal, "cmd.info"), { recursive: true });
  await end({ isOver: false });
  // Until it has read the answer there it knows of no connection.
  await expect.poll(() => agent.given("cmd").catch(({ code }) => code)).toBe("unsupported");
  rmSync(agent.journal, { recursive: true });
  writeFileSync(agent.journal, "");
  await end({ isOver: true });
  await gone;
  await expect(command?.exited).rejects.toMatchObject({ code: "gone" });
});

test("the end of a connection is looked into, unless the machine is being killed; and then if that has failed", async () => {
  const { agent, connections, drop } = await oldAgent();
  await drop();
  await expect.poll(connections).toBe(2);
  await expect.poll(() => agent.given("cmd").catch(({ code }) => code)).toBe("unsupported");
  agent.expectEnd(true);
  await drop();
  await expect(agent.given("cmd")).rejects.toMatchObject({ code: "gone" });
  expect(connections()).toBe(2);
  agent.expectEnd(false);
  await expect.poll(connections).toBe(3);
  await expect.poll(() => agent.given("cmd").catch(({ code }) => code)).toBe("unsupported");
});

test("the end of a command that comes with the list of commands is not missed", async () => {
  const ending = new FrameWriter().str("cmd").u32(3).u32(0).u32(0).u64(0).u64(0).u64(0).frame(Type.exit, 0);
  const { agent } = await oldAgent({ running: "cmd", afterList: ending });
  expect(await agent.process("cmd")?.exited).toMatchObject({ code: 3 });
});

test("nothing is asked of a new machine", async () => {
  const { agent, asked } = await oldAgent({ isNew: true });
  expect(agent.processes()).toEqual([]);
  expect(asked).toEqual([Type.hello]);
});

/** one that knows signals up to 63 and no flag, and no request that is newer; which signals it was asked for */
async function oldAgent({ running = "", isNew = false, afterList = Buffer.alloc(0) as Buffer } = {}) {
  const signals: number[] = [];
  const asked: number[] = [];
  const folder = await tempDir();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    // The daemon's side may close it before it has its answer.
    socket.on("error", () => undefined);
    const parser = new FrameParser();
    socket.on("data", (chunk) => {
      for (const { type, id, payload } of parser.push(chunk)) socket.write(answer(type, id, new FrameReader(payload)));
    });
  });
  const socket = join(folder, "agent.sock");
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  onTestFinished(() => void server.close());
  const journal = join(folder, "journal");
  mkdirSync(journal);
  const agent = new Agent({ socket, journal, outputLimit: 1, journalLimit: 1 });
  await agent.open({ isNew });
  onTestFinished(() => agent.close());
  return { agent, signals, asked, end, drop, connections: () => sockets.size };

  /** breaks the connection, and resolves when the daemon's side knows */
  async function drop(): Promise<void> {
    const [last] = [...sockets].slice(-1);
    const request = agent.signal("cmd", silence);
    await expect.poll(() => signals.includes(silence)).toBe(true);
    signals.length = 0;
    last?.destroy();
    await expect(request).rejects.toMatchObject({ code: "gone" });
  }

  /** breaks the connection; unless it is over, the agent takes another one, and this resolves when there is one */
  async function end({ isOver }: { isOver: boolean }): Promise<void> {
    if (isOver) server.close();
    const before = [...sockets];
    for (const connection of before) connection.destroy();
    if (!isOver) await expect.poll(() => sockets.size).toBeGreaterThan(before.length);
  }

  function answer(type: number, id: number, request: FrameReader): Buffer {
    asked.push(type);
    if (type === Type.hello) return new FrameWriter().u32(wireVersion).u32(1).frame(Type.ok, id);
    if (type === Type.commands && running === "") return new FrameWriter().u32(0).frame(Type.ok, id);
    const list = new FrameWriter().u32(1).str(running).u32(7).u64(0);
    if (type === Type.commands) return Buffer.concat([list.frame(Type.ok, id), afterList]);
    if (type !== Type.signal) return refusal(id, constants.errno.ENOSYS);
    request.str();
    const signal = request.u32();
    signals.push(signal);
    if (signal === silence) return Buffer.alloc(0);
    return signal < 64 ? new FrameWriter().frame(Type.ok, id) : refusal(id, constants.errno.EINVAL);
  }
}

function refusal(id: number, errno: number): Buffer {
  return new FrameWriter().u32(errno).u8(What.request).str("Cannot do it").frame(Type.fail, id);
}
