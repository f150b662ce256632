/** A program on a real terminal that a test reads from and types into. Python has a pty where Node has none. */

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { stripVTControlCharacters } from "node:util";
import { onTestFinished } from "vitest";

export class Typist {
  readonly #python: ChildProcessWithoutNullStreams;
  #output = "";
  #read = 0;
  #heard: () => void = () => undefined;
  /** the program's exit code */
  readonly ended: Promise<number | null>;

  /** starts a program on a terminal of 24 rows and 80 columns, and ends it with the test */
  constructor(command: string[], options: { env: NodeJS.ProcessEnv; cwd: string }) {
    const env = { ...options.env, TERM: "xterm-256color" };
    this.#python = spawn("python3", ["-c", terminal, ...command], { ...options, env });
    onTestFinished(async () => {
      this.#python.kill("SIGKILL");
      await this.ended;
    });
    this.#python.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#output += text;
      this.#heard();
    });
    this.#python.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#output += text;
    });
    // It may have ended before the input; the test sees that by its output and code.
    this.#python.stdin.on("error", () => undefined);
    this.ended = new Promise((resolve) => {
      this.#python.once("close", (code) => {
        resolve(code);
        this.#heard();
      });
    });
  }

  /** everything that the terminal has shown, without colours and the like */
  get output(): string {
    return stripVTControlCharacters(this.#output);
  }

  /** waits until the terminal shows a match, after the match of the previous call */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.output.slice(this.#read));
      if (found) {
        this.#read += found.index + found[0].length;
        return found;
      }
      if (this.#python.exitCode !== null) throw new Error(`The program ended without ${pattern}: ${this.output}`);
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
  }

  type(text: string): void {
    this.#command({ type: text });
  }

  resize(rows: number, columns: number): void {
    this.#command({ resize: [rows, columns] });
  }

  #command(command: object): void {
    this.#python.stdin.write(`${JSON.stringify(command)}\n`);
  }
}

const terminal = `
import fcntl, json, os, pty, select, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
resize = lambda rows, columns: fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
resize(24, 80)
commands, sources = b"", [fd, 0]
while True:
    ready = select.select(sources, [], [])[0]
    if 0 in ready:
        data = os.read(0, 65536)
        if not data: sources = [fd]
        *lines, commands = (commands + data).split(b"\\n")
        for command in map(json.loads, lines):
            if "type" in command: os.write(fd, command["type"].encode())
            if "resize" in command: resize(*command["resize"])
    if fd in ready:
        try: data = os.read(fd, 65536)
        except OSError: break
        if not data: break
        os.write(1, data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;
