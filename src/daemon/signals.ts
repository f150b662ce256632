/**
 * What the outside world says to a daemon: SIGTERM and SIGINT ask it to end, and asked twice it hurries; SIGHUP says that
 * a terminal is gone, which a service does not mind. A reader of its output that is gone does not end it either. Every
 * other command ends with the reader of its output, as programs do that SIGPIPE ends.
 */

export interface Ending {
  /** resolves when somebody asks for the end */
  asked: Promise<void>;
  /** aborted when somebody asks again: whatever is waited for is waited for no longer */
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

/** the exit code that a shell shows for a program that SIGPIPE ended */
export const brokenPipe = 141;

/** Thrown by whatever prints when its reader has gone: the command unwinds, and closes what it has opened. */
export class BrokenOutput extends Error {
  override readonly name = "ReaderGone";
}

/** How a command prints that ends with the reader of its output. */
export interface Output {
  /** throws ReaderGone once the reader of either stream has gone */
  write(stream: NodeJS.WriteStream, text: string): void;
}

/** `gone` is called once, with the first error of a stream: EPIPE says that its reader has gone */
export function outputUntilClosed(gone: (error: NodeJS.ErrnoException) => void): Output {
  let isGone = false;
  const onError = (error: NodeJS.ErrnoException) => {
    if (isGone) return;
    isGone = true;
    gone(error);
  };
  for (const stream of [process.stdout, process.stderr]) stream.on("error", onError);
  return {
    write(stream, text) {
      if (isGone) throw new BrokenOutput();
      stream.write(text);
    },
  };
}

/** whoever read our output may go: unheard, the error would end the program */
export function ignoreBrokenPipes(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}
