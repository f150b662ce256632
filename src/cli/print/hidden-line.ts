/** Asks for a secret on a terminal without showing what is typed. */

import type { ReadStream, WriteStream } from "node:tty";
import { CliError } from "../errors.ts";

export async function hiddenLine(question: string, input: ReadStream, output: WriteStream): Promise<string> {
  output.write(question);
  input.setRawMode(true);
  let typed = "";
  try {
    for await (const chunk of input.setEncoding("utf8") as AsyncIterable<string>) {
      for (const sign of chunk) {
        if (sign === "\r" || sign === "\n") return typed;
        if (sign === "\x03" || sign === "\x04") throw new CliError("Cannot log in: no password was typed");
        typed = sign === "\x7f" ? typed.slice(0, -1) : typed + sign;
      }
    }
    return typed;
  } finally {
    input.setRawMode(false);
    output.write("\n");
  }
}
