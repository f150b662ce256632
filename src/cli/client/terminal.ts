/**
 * Connects this terminal with the terminal of a program in a sandbox. Every key goes to the program, and the size of the
 * window follows. A connection that breaks off is made again after the last byte that was shown.
 */

import { WebSocket } from "ws";
import { type CommandContext, type Program, pauses, sizeOf } from "../command.ts";
import { CliError } from "../errors.ts";
import type { Daemon } from "./daemon.ts";

/** bytes that may wait for the network before the keyboard is not read for a while */
const mostWaiting = 1 << 20;

/** resolves when the program has ended, or the signal aborts */
export async function attachTerminal(
  daemon: Daemon,
  program: Program,
  { input, output }: CommandContext,
  signal: AbortSignal,
): Promise<void> {
  const state = { shown: 0, failures: 0 };
  input.setRawMode(true);
  try {
    while (!signal.aborted) {
      const outcome = await connected(daemon, program, { input, output, state, signal });
      if (outcome === "ended" || signal.aborted) return;
      const pause = pauses[state.failures++];
      if (pause === undefined) {
        const hint = "the program goes on; sandkeep logs shows its output";
        throw new CliError(`Cannot go on with the terminal: the connection to "${daemon.url}" is lost`, hint);
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  } finally {
    input.setRawMode(false);
    input.pause();
  }
}

interface Ends {
  input: NodeJS.ReadStream;
  output: NodeJS.WriteStream;
  state: { shown: number; failures: number };
  signal: AbortSignal;
}

function connected(daemon: Daemon, { session, command }: Program, { input, output, state, signal }: Ends) {
  const address = new URL(`/sandkeep/v1/sessions/${session}/commands/${command}/terminal`, daemon.url);
  address.protocol = address.protocol.replace("http", "ws");
  for (const [name, value] of Object.entries({ ...daemon.team, from: String(state.shown) }))
    address.searchParams.set(name, value);
  const socket = new WebSocket(address, { headers: { authorization: `Bearer ${daemon.key}` } });
  const { promise, resolve, reject } = Promise.withResolvers<"ended" | "lost">();
  const resize = () => {
    const { rows, columns } = sizeOf(output);
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "resize", rows, columns }));
  };
  const typed = (keys: Buffer) => {
    socket.send(keys, () => {
      if (socket.bufferedAmount < mostWaiting) input.resume();
    });
    if (socket.bufferedAmount >= mostWaiting) input.pause();
  };
  const leave = () => socket.terminate();
  signal.addEventListener("abort", leave, { once: true });
  socket.on("open", () => {
    resize();
    output.on("resize", resize);
    input.on("data", typed).resume();
  });
  socket.on("message", (data: Buffer, isBinary: boolean) => {
    state.failures = 0;
    if (isBinary) {
      state.shown += data.length;
      if (output.write(data)) return;
      socket.pause();
      output.once("drain", () => socket.resume());
      return;
    }
    // The daemon's own messages: docs/api.md lists them.
    const message = JSON.parse(data.toString()) as { type: string; bytes?: number; error?: { message: string } };
    if (message.type === "dropped") state.shown += message.bytes ?? 0;
    if (message.type === "exit") resolve("ended");
    if (message.type === "error") reject(new CliError(`Cannot go on with the terminal: ${message.error?.message}`));
  });
  socket.on("unexpected-response", (_, response) => {
    const { statusCode = 0 } = response;
    socket.terminate();
    if (statusCode >= 500) resolve("lost");
    else reject(new CliError(`Cannot attach to the terminal: the daemon says ${statusCode}`));
  });
  // The end of the connection follows.
  socket.on("error", () => undefined);
  socket.on("close", () => resolve("lost"));
  return promise.finally(() => {
    signal.removeEventListener("abort", leave);
    output.off("resize", resize);
    input.off("data", typed).pause();
    socket.terminate();
  });
}
