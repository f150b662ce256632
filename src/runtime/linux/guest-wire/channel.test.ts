/** A connection to a launcher or an agent of another version, or from a daemon that has no descriptors left. */

import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { constants } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { FrameParser, FrameWriter, Type, What } from "../../../protocols/guest-frames.ts";
import { Agent } from "./agent.ts";
import { askAlone, Channel } from "./channel.ts";
import { Launcher } from "./launcher.ts";

test("a launcher or an agent with other frames is refused in a sentence, and no second launcher is started", async () => {
  const run = await tempDir();
  await serveOtherVersion(join(run, "launch.sock"));
  await serveOtherVersion(join(run, "agent.sock"));
  const launcher = Launcher.open({ run, binary: "/nonexistent", egress: [], env: {}, orphans: () => [] });
  await expect(launcher).rejects.toThrow(
    /^Cannot talk to the launcher: it does not speak version 1 of the frames, so another version of Sandkeep started it; /,
  );
  const agent = new Agent({ socket: join(run, "agent.sock"), journal: run, outputLimit: 1, journalLimit: 1 });
  await expect(agent.open()).rejects.toThrow(/: it does not speak version 1 of the frames, /);
});

test("a process without descriptors takes neither an agent for gone nor a process for dead", async () => {
  const run = await tempDir();
  const socket = join(run, "agent.sock");
  await serveOtherVersion(socket);
  const script = `
    import { openSync } from "node:fs";
    import { dial } from ${JSON.stringify(join(import.meta.dirname, "channel.ts"))};
    import { startTick } from ${JSON.stringify(join(import.meta.dirname, "../host/kernel-file.ts"))};
    const socket = ${JSON.stringify(socket)};
    (await dial(socket, "the sandbox")).destroy();
    try {
      for (;;) openSync("/dev/null");
    } catch {}
    const say = (error) => console.log(error.code, error.message);
    await dial(socket, "the sandbox").catch(say);
    try {
      startTick(process.pid);
    } catch (error) {
      say(error);
    }
    process.exit();`;
  const limited = 'ulimit -n 100; exec "$0" --input-type=module --eval "$1"';
  const { stdout } = await promisify(execFile)("sh", ["-c", limited, process.execPath, script]);
  const [dialled, looked] = stdout.trim().split("\n");
  expect(dialled).toBe("limit Cannot connect to the sandbox: EMFILE: too many open files");
  expect(looked).toMatch(/^EMFILE /);
});

test("the answer of a helper ends its connection; one that refuses, or dies without an answer, says so", async () => {
  const path = join(await tempDir(), "helper.sock");
  const ended: string[] = [];
  const refusal = new FrameWriter().u32(constants.errno.ENOSPC).u8(What.path).str("Cannot copy it");
  const server = createServer((socket) => {
    socket.once("data", (chunk) => {
      const asked = chunk.toString("latin1");
      socket.once("close", () => ended.push(asked));
      if (asked === "yes") socket.write(new FrameWriter().frame(Type.ok, 1));
      else if (asked === "no") socket.write(refusal.frame(Type.fail, 1));
      else socket.end();
    });
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const ask = (text: string) => askAlone(path, "the launcher", Buffer.from(text), 10_000);
  await ask("yes");
  await expect(ask("no")).rejects.toThrow(/^Cannot copy it/);
  const died = { code: "gone", message: "Cannot finish the request: the launcher's helper died" };
  await expect(ask("die")).rejects.toMatchObject(died);
  await expect.poll(() => ended).toEqual(["yes", "no", "die"]);
});

test("requests fail when their connection ends, and afterwards", async () => {
  const path = join(await tempDir(), "agent.sock");
  const server = createServer((socket) => {
    const parser = new FrameParser();
    socket.on("data", (chunk) => {
      for (const { id, type } of parser.push(chunk)) {
        if (type === Type.hello) socket.write(new FrameWriter().u32(1).u32(1).frame(Type.ok, id));
        else socket.destroy();
      }
    });
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(path, resolve));
  let closed = 0;
  const channel = await Channel.open(path, "the sandbox", { closed: () => void closed++ });
  const gone = { code: "gone", message: "The connection to the sandbox has ended" };
  await expect(channel.request(Type.machines)).rejects.toMatchObject(gone);
  await expect(channel.request(Type.machines)).rejects.toMatchObject(gone);
  expect(closed).toBe(1);
});

/** answers every HELLO as guest/shared/connection.c does where it speaks another version */
async function serveOtherVersion(path: string): Promise<void> {
  const server = createServer((socket) => {
    const parser = new FrameParser();
    socket.on("data", (chunk) => {
      for (const { id } of parser.push(chunk)) {
        const refusal = new FrameWriter().u32(constants.errno.EPROTO).u8(What.request);
        socket.write(refusal.str("Cannot talk: this process speaks version 2").frame(Type.fail, id));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => void server.close());
}
