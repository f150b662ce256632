/**
 * Signals and broken pipes. SIGTERM and SIGINT stop the daemon, and a second one forces it to stop soon; SIGHUP, sent
 * when a terminal closes, is ignored. The daemon keeps running when a reader of its output exits. Every other command
 * ends then, as programs do that SIGPIPE ends.
 */

export interface Ending {
  /** resolves at the first signal that asks the daemon to stop */
  asked: Promise<void>;
  /** aborted at a second signal: stop waiting for anything */
  forced: AbortSignal;
}

/**
 * One Ctrl-C under npm reaches the daemon twice: the terminal sends it to every process of the group, and npm passes on
 * its own. A signal that comes again within this time, in ms, is the same one.
 */
const sameSignal = 1000;

/** from now on, for as long as the program runs */
export function handleSignals(source: NodeJS.EventEmitter = process, now = () => performance.now()): Ending {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  const forced = new AbortController();
  let first: { signal: string; at: number } | undefined;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    source.on(signal, () => {
      const at = now();
      if (first === undefined) resolve();
      else if (first.signal !== signal || at - first.at >= sameSignal) forced.abort();
      first ??= { signal, at };
    });
  }
  source.on("SIGHUP", () => undefined);
  return { asked, forced: forced.signal };
}

/** how long a start may take after a signal, in ms */
const startTimeout = 10_000;

/**
 * A signal does not end a start half way, which would leave behind what the start has made: the daemon can be stopped
 * in order once it has started. A second signal, or a start that takes too long, ends the program.
 */
export async function finishStart<T>(
  start: Promise<T>,
  { asked, forced }: Ending,
  exit: () => void = () => process.exit(1),
): Promise<{ started: T; isWanted: boolean }> {
  let isWanted = true;
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  forced.addEventListener("abort", exit);
  void asked.then(() => {
    isWanted = false;
    if (!isOver) timer = setTimeout(exit, startTimeout);
  });
  try {
    return { started: await start, isWanted };
  } finally {
    isOver = true;
    clearTimeout(timer);
    forced.removeEventListener("abort", exit);
  }
}

/** the exit code that a shell shows for a program that SIGPIPE ended */
export const brokenPipe = 141;

/** Thrown when something is printed and the reader has exited: the command unwinds and closes what it has opened. */
export class BrokenOutput extends Error {
  override readonly name = "ReaderGone";
}

/** How a command prints that ends with the reader of its output. The streams are opened when they are first used. */
export interface Output {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** throws ReaderGone once the reader of either stream has gone; false if the stream must drain before more */
  write(stream: NodeJS.WriteStream, text: string | Uint8Array): boolean;
  /** resolves when the readers have got everything, or have gone: an exit before that cuts the output off */
  flush(): Promise<void>;
}

/** `gone` is called once, with the first error of a stream: EPIPE means that its reader has exited */
export function outputUntilClosed(gone: (error: NodeJS.ErrnoException) => void): Output {
  let isGone = false;
  const onError = (error: NodeJS.ErrnoException) => {
    if (isGone) return;
    isGone = true;
    gone(error);
  };
  const streams = new Set<NodeJS.WriteStream>();
  const opened = (stream: NodeJS.WriteStream) => {
    if (!streams.has(stream)) stream.on("error", onError);
    streams.add(stream);
    return stream;
  };
  return {
    get stdout() {
      return opened(process.stdout);
    },
    get stderr() {
      return opened(process.stderr);
    },
    write(stream, text) {
      if (isGone) throw new BrokenOutput();
      return stream.write(text);
    },
    async flush() {
      for (const stream of streams)
        if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write("", () => resolve()));
    },
  };
}

/** a reader of our output may exit: an unhandled error would end the program */
export function ignoreBrokenPipes(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}
