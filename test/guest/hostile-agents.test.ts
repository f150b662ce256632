/**
 * Hostile answers of an agent to netd, which asks it which process in its sandbox holds a socket. The agents here are
 * the test's own, and netd runs with the address and undefined behaviour sanitisers.
 */

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { FrameWriter, headerLength, Type } from "../../src/protocols/guest-frames.ts";
import { eventually, tempDir } from "../harness/harness.ts";
import { openInternet } from "../internet/internet.ts";
import { webAddress } from "../internet/internet-names.ts";
import { Probe } from "../internet/network-probe.ts";
import { has, needs } from "../runner/needs.ts";

const undo = new AsyncDisposableStack();
let probe: Probe;

beforeAll(async () => {
  if (!has("root")) return;
  probe = await Probe.start(undo, (await openInternet(undo)).host, { sanitized: true });
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command python3"));

test("an agent that answers a question to another agent is cut off, and its answer is ignored", async () => {
  const hostile = await machineWithAgent("hostile");
  const victim = await machineWithAgent("victim");
  await connect("hostile");
  const { socket, question } = await hostile.asked();
  socket.write(answer(question, "itself"));
  await connect("victim");
  const { question: anothers } = await victim.asked();
  const cut = once(socket, "close");
  socket.write(answer(anothers, "forged"));
  await cut;
  await eventually("its line is there", async () => (await probe.eventsNow("victim")).length > 0);
  expect(JSON.stringify(await probe.events("victim"))).not.toContain("forged");
});

test("an agent that answers twice, answers without a question, or sends a malformed answer is cut off", async () => {
  const words: [string, (question: number) => Buffer][] = [
    ["twice", (question) => Buffer.concat([answer(question, "once"), answer(question, "again")])],
    ["unasked", (question) => answer(question + 1, "nobody")],
    ["greeting", () => new FrameWriter().frame(Type.ok, 0)],
    ["refusal", (question) => new FrameWriter().frame(Type.fail, question)],
    ["too-long", (question) => Buffer.concat([Buffer.from("ffffffff01", "hex"), Buffer.alloc(4, question)])],
  ];
  for (const [name, word] of words) {
    const { asked } = await machineWithAgent(name);
    await connect(name);
    const { socket, question } = await asked();
    const cut = once(socket, "close");
    socket.write(word(question));
    await cut;
    expect(JSON.stringify(await probe.eventsNow(name))).not.toContain("again");
  }
  expect(probe.log).not.toMatch(/Sanitizer|runtime error/);
});

interface Asked {
  socket: Socket;
  question: number;
}

/** a machine that reaches everything; its agent accepts questions, and delays every answer */
async function machineWithAgent(name: string): Promise<{ asked: () => Promise<Asked> }> {
  const questions: Asked[] = [];
  const server = createServer((socket) => {
    let rest = Buffer.alloc(0);
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= headerLength && rest.length >= headerLength + rest.readUInt32LE(0)) {
        const [type, id] = [rest.readUInt8(4), rest.readUInt32LE(5)];
        if (type === Type.holders) socket.write(new FrameWriter().frame(Type.ok, id));
        else questions.push({ socket, question: id });
        rest = rest.subarray(headerLength + rest.readUInt32LE(0));
      }
    });
  });
  const path = join(await tempDir(undo), "agent.sock");
  server.listen(path);
  undo.defer(() => void server.close());
  await once(server, "listening");
  await probe.admit(name, path);
  return { asked: () => eventually(`the agent of ${name} is asked`, () => questions.shift()) };
}

/** makes one connection from inside, and ends it */
async function connect(machine: string): Promise<void> {
  expect(await probe.python(machine, `print(web("${webAddress}"))`)).toBe("page for x");
}

function answer(question: number, program: string): Buffer {
  return new FrameWriter().str(program).u16(1).u32(2).u32(2).u64(1).frame(Type.ok, question);
}
