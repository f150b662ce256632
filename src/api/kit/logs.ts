/**
 * A command's output as log lines. Each stream is decoded by itself and piece by piece, so that no character is cut in
 * two; what is no UTF-8 is lost, as it is on the hosted services.
 *
 * Output that the journal no longer keeps is told in one line on stderr. An error line would be plainer, but the clients
 * throw at it and the rest, with the exit code, would be lost to them. On stdout a note would end up in what programs
 * parse. The line has a member `dropped`, so that who reads the wire knows it from what the command printed.
 */

import type { OutputChunk } from "../../core/ports/runtime.ts";

interface LogLine {
  stream: "stdout" | "stderr";
  data: string;
  /** bytes that are missing here */
  dropped?: number;
}

export async function* logLines(output: AsyncIterable<OutputChunk>): AsyncGenerator<LogLine> {
  let decoders = fresh();
  for await (const { stream, data, dropped } of output) {
    if (dropped) {
      yield* rest(decoders);
      decoders = fresh();
      yield { stream: "stderr", data: `[sandkeep] ${dropped} bytes of earlier output are no longer kept\n`, dropped };
    }
    const name = stream === "stderr" ? "stderr" : "stdout";
    yield* lines(name, decoders[name].decode(data, { stream: true }));
  }
  yield* rest(decoders);
}

/** characters in one line; longer text is several lines to the client, which puts them together again */
const longest = 64 << 10;

function* lines(stream: LogLine["stream"], text: string): Generator<LogLine> {
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + longest, text.length);
    // A pair of surrogates is one character.
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to++;
    yield { stream, data: text.slice(from, to) };
    from = to;
  }
}

type Decoders = ReturnType<typeof fresh>;

function fresh() {
  return {
    stdout: new TextDecoder("utf-8", { ignoreBOM: true }),
    stderr: new TextDecoder("utf-8", { ignoreBOM: true }),
  };
}

/** what is left of characters that never came whole */
function* rest(decoders: Decoders): Generator<LogLine> {
  for (const stream of ["stdout", "stderr"] as const) yield* lines(stream, decoders[stream].decode());
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
