/**
 * A command's output as log lines. Each stream has its own incremental decoder, so that no character is cut in two.
 * Bytes that are not UTF-8 are lost, as on the hosted services.
 *
 * When the journal has dropped output, one line on stderr says so. It is not an error line, because clients throw at
 * those and would miss the rest and the exit code. It is not on stdout, because programs parse that. The line has a
 * member `dropped`, which tells it from what the command printed.
 */

import type { OutputChunk } from "../../core/ports/runtime.ts";

interface LogLine {
  stream: "stdout" | "stderr";
  data: string;
  /** bytes that are missing here */
  dropped?: number;
}

export async function* logLines(output: AsyncIterable<OutputChunk>): AsyncGenerator<LogLine> {
  let decoders: Decoders = {};
  for await (const { stream, data, dropped } of output) {
    if (dropped) {
      yield* rest(decoders);
      decoders = {};
      yield { stream: "stderr", data: `[sandkeep] ${dropped} bytes of earlier output are no longer kept\n`, dropped };
    }
    const name = stream === "stderr" ? "stderr" : "stdout";
    yield* lines(name, decoderOf(decoders, name).decode(data, { stream: true }));
  }
  yield* rest(decoders);
}

/** most characters in one line; the client joins the lines of a longer text again */
const longest = 64 << 10;

function* lines(stream: LogLine["stream"], text: string): Generator<LogLine> {
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + longest, text.length);
    // Do not split a surrogate pair, which is one character.
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to++;
    yield { stream, data: text.slice(from, to) };
    from = to;
  }
}

/** those of the streams that have had output: most commands use one of them, and a decoder takes long to make */
type Decoders = Partial<Record<LogLine["stream"], Decoder>>;
type Decoder = InstanceType<typeof TextDecoder>;

function decoderOf(decoders: Decoders, stream: LogLine["stream"]): Decoder {
  const decoder = decoders[stream] ?? new TextDecoder("utf-8", { ignoreBOM: true });
  decoders[stream] = decoder;
  return decoder;
}

/** what remains of incomplete characters */
function* rest(decoders: Decoders): Generator<LogLine> {
  for (const stream of ["stdout", "stderr"] as const) yield* lines(stream, decoders[stream]?.decode() ?? "");
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
