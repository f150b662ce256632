/** Terminals over a real WebSocket, with a fake core. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { apiClient, type Client } from "../../../../test/harness/api-client.ts";
import {
  command,
  commandId,
  endedCommand,
  failing,
  type Overrides,
  sessionId,
} from "../../../../test/harness/fake-core.ts";
import type { Command } from "../../../core/model/sandbox.ts";
import type { OutputChunk, OutputOptions } from "../../../core/ports/runtime.ts";

const base = `/api/v2/sandboxes/sessions/${sessionId}/interactive`;

/** a command whose output and end the test controls */
class Pty {
  readonly ended = Promise.withResolvers<Command>();
  readonly written: Buffer[] = [];
  readonly sizes: unknown[] = [];
  readonly signals: number[] = [];
  readonly starts: unknown[] = [];
  /** number of current readers of its output */
  readers = 0;
  #printed = Buffer.alloc(0);
  #over = false;
  #changed = Promise.withResolvers<void>();

  print(text: string): void {
    this.#printed = Buffer.concat([this.#printed, Buffer.from(text)]);
    this.#wake();
  }

  exit(code: number): void {
    this.#over = true;
    this.ended.resolve({ ...endedCommand, exitCode: code });
    this.#wake();
  }

  methods(): Overrides {
    return {
      "commands.run": async (_: unknown, __: string, spec: unknown) => {
        this.starts.push(spec);
        return command;
      },
      "commands.output": async (_: unknown, __: string, ___: string, options: OutputOptions) => this.#output(options),
      "commands.wait": () => this.ended.promise,
      "commands.write": async (_: unknown, __: string, ___: string, data: Uint8Array) => {
        this.written.push(Buffer.from(data));
      },
      "commands.resize": async (_: unknown, __: string, ___: string, size: unknown) => {
        this.sizes.push(size);
      },
      "commands.kill": async (_: unknown, __: string, ___: string, signal: number) => {
        this.signals.push(signal);
        return command;
      },
    };
  }

  async *#output({ from = 0, signal }: OutputOptions): AsyncGenerator<OutputChunk> {
    signal?.addEventListener("abort", () => this.#wake());
    let offset = from;
    this.readers++;
    try {
      while (!signal?.aborted) {
        if (offset < this.#printed.length) {
          const data = this.#printed.subarray(offset);
          yield { offset, stream: "pty", data };
          offset += data.length;
        } else if (this.#over) return;
        else await this.#changed.promise;
      }
    } finally {
      this.readers--;
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

let pty: Pty;
let client: Client;
let server: Server;
const sockets: WebSocket[] = [];

beforeEach(async () => {
  pty = new Pty();
  client = apiClient(pty.methods());
  await listen();
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.terminate();
  server.close();
});

async function listen(): Promise<void> {
  server = createServer();
  server.on("upgrade", (request, socket, head) => client.api.upgrade(request, socket, head));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
}

async function issue(): Promise<string> {
  return (await client.ask("POST", base, {})).json.token;
}

function open(token: string, id = sessionId): WebSocket {
  const { port } = server.address() as AddressInfo;
  const socket = new WebSocket(`ws://127.0.0.1:${port}/interactive/${id}?token=${token}`);
  sockets.push(socket);
  return socket;
}

/** a connected socket and what it has received so far */
async function connected(token: string) {
  const socket = open(token);
  const received: { text: string; exit: unknown } = { text: "", exit: undefined };
  socket.on("message", (data: Buffer, isBinary: boolean) => {
    if (isBinary) received.text += data;
    else received.exit = JSON.parse(data.toString());
  });
  await once(socket, "open");
  return { socket, received };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

const start = {
  type: "start",
  command: "sh",
  args: ["-l"],
  env: ["TERM=xterm", "A=b=c"],
  cwd: "/tmp",
  cols: 80,
  rows: 24,
};

test("a terminal begins with a URL and a token", async () => {
  const { json } = await client.ask("POST", base, {});
  expect(json.url).toBe(`ws://127.0.0.1:7700/interactive/${sessionId}`);
  expect(json.token).toMatch(/^[\w-]{43}$/);
});

describe("a terminal", () => {
  test("starts the command, shows its output, takes input and sizes, and reports the exit code", async () => {
    const { socket, received } = await connected(await issue());
    socket.send(JSON.stringify(start));
    pty.print("$ ");
    await until(() => received.text === "$ ");
    expect(pty.starts).toEqual([
      {
        name: "sh",
        args: ["-l"],
        env: { TERM: "xterm", A: "b=c" },
        cwd: "/tmp",
        pty: { rows: 24, columns: 80 },
        stdin: true,
      },
    ]);
    socket.send(Buffer.from("exit 7\n"));
    socket.send(JSON.stringify({ type: "resize", cols: 100, rows: 40 }));
    await until(() => pty.written.length > 0 && pty.sizes.length > 0);
    expect([Buffer.concat(pty.written).toString(), pty.sizes]).toEqual(["exit 7\n", [{ rows: 40, columns: 100 }]]);
    pty.print("bye");
    pty.exit(7);
    await once(socket, "close");
    expect(received).toEqual({ text: "$ bye", exit: { type: "exit", code: 7 } });
  });

  test("without a size has the default size", async () => {
    const { socket } = await connected(await issue());
    socket.send(JSON.stringify({ ...start, cols: 0, rows: 0 }));
    await until(() => pty.starts.length > 0);
    expect(pty.starts[0]).toMatchObject({ pty: { rows: 24, columns: 80 } });
  });

  test("that lost its connection continues where it stopped, and sends nothing twice", async () => {
    const token = await issue();
    const first = await connected(token);
    first.socket.send(JSON.stringify(start));
    pty.print("before ");
    await until(() => first.received.text === "before ");
    first.socket.terminate();
    await until(() => pty.readers === 0);
    pty.print("between ");
    const second = await connected(token);
    second.socket.send(JSON.stringify({ ...start, cols: 90, rows: 30 }));
    pty.print("after");
    await until(() => second.received.text.endsWith("after"));
    expect(second.received.text).toBe("between after");
    expect(pty.starts).toHaveLength(1);
    expect(pty.sizes).toEqual([{ rows: 30, columns: 90 }]);
    pty.exit(0);
    await once(second.socket, "close");
    expect(pty.signals).toEqual([]);
  });

  test("that ended without a connection reports its exit code to a client that reconnects", async () => {
    const token = await issue();
    const first = await connected(token);
    first.socket.send(JSON.stringify(start));
    await until(() => pty.starts.length > 0);
    first.socket.terminate();
    pty.exit(3);
    const second = await connected(token);
    await once(second.socket, "close");
    expect(second.received.exit).toEqual({ type: "exit", code: 3 });
  });

  test("is used through the newest connection only", async () => {
    const token = await issue();
    const first = await connected(token);
    first.socket.send(JSON.stringify(start));
    pty.print("1");
    await until(() => first.received.text === "1");
    const second = await connected(token);
    pty.print("2");
    const [code] = await once(first.socket, "close");
    expect(code).toBe(4000);
    await until(() => second.received.text === "2");
    pty.exit(5);
    await once(second.socket, "close");
    expect(second.received.exit).toEqual({ type: "exit", code: 5 });
    expect(first.received).toEqual({ text: "1", exit: undefined });
    expect(client.logged).toEqual([]);
  });

  test("survives a connection that breaks while something is sent", async () => {
    const token = await issue();
    const first = await connected(token);
    first.socket.send(JSON.stringify(start));
    first.socket.pause();
    pty.print("x".repeat(8 << 20));
    await until(() => pty.readers > 0);
    first.socket.terminate();
    await until(() => pty.readers === 0);
    const second = await connected(token);
    pty.print("end");
    await until(() => second.received.text.endsWith("end"));
    pty.exit(0);
    await once(second.socket, "close");
    expect(second.received.exit).toEqual({ type: "exit", code: 0 });
    expect(client.logged).toEqual([]);
  });

  test("that no client reconnects to is hung up", async () => {
    server.close();
    client = apiClient(pty.methods(), { interactive: { tokenLife: 60_000, grace: 20 } });
    await listen();
    const { socket } = await connected(await issue());
    socket.send(JSON.stringify(start));
    await until(() => pty.starts.length > 0);
    socket.close();
    await until(() => pty.signals.length > 0);
    expect(pty.signals).toEqual([1]);
    expect(client.asked("commands.kill")[0]?.[2]).toBe(commandId);
  });

  test("whose program is unknown says so and ends with 127", async () => {
    server.close();
    client = apiClient({
      ...pty.methods(),
      "commands.run": failing("invalid", 'Cannot run "nope"', { kind: "executable" }),
    });
    await listen();
    const { socket, received } = await connected(await issue());
    socket.send(JSON.stringify(start));
    await once(socket, "close");
    expect(received).toEqual({ text: 'Cannot run "nope"\r\n', exit: { type: "exit", code: 127 } });
  });

  test("does not read output ahead of a slow reader", async () => {
    const { socket, received } = await connected(await issue());
    socket.send(JSON.stringify(start));
    await until(() => pty.starts.length > 0);
    socket.pause();
    pty.print("x".repeat(4 << 20));
    pty.exit(0);
    socket.resume();
    await once(socket, "close");
    expect(received.text.length).toBe(4 << 20);
    expect(received.exit).toEqual({ type: "exit", code: 0 });
  });

  test.each(["{", "[]", '{"type":"other"}', '{"type":"start"}', '{"type":"start","command":"x","env":["novalue"]}'])(
    "refuses the message %s",
    async (message) => {
      const { socket } = await connected(await issue());
      socket.send(message);
      const [code] = await once(socket, "close");
      expect(code).toBe(1003);
      expect(pty.starts).toEqual([]);
    },
  );
});

describe("a token", () => {
  async function refused(token: string, id?: string): Promise<number | undefined> {
    const socket = open(token, id);
    const [, response] = await once(socket, "unexpected-response");
    socket.on("error", () => undefined);
    return response.statusCode;
  }

  test("that was never issued opens nothing", async () => {
    expect(await refused("x")).toBe(401);
    expect(await refused("")).toBe(401);
  });

  test("opens no other session", async () => {
    expect(await refused(await issue(), "sbx_2")).toBe(401);
  });

  test("with another path opens nothing", async () => {
    const { port } = server.address() as AddressInfo;
    const socket = new WebSocket(`ws://127.0.0.1:${port}/other`);
    sockets.push(socket);
    const [, response] = await once(socket, "unexpected-response");
    socket.on("error", () => undefined);
    expect(response.statusCode).toBe(404);
  });
});
