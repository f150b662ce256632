/**
 * A terminal whose screen a test can look at: tmux draws what a program writes, moves the cursor and clears lines, as the
 * terminal of a user does. Typist only collects what was written.
 */

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { eventually, root, tempDir } from "../../harness/harness.ts";

const run = promisify(execFile);

/** the screen stays when its program has ended, and has no line of tmux's own */
const settings = `set -g remain-on-exit on
set -g remain-on-exit-format ""
set -g status off
set -g default-terminal screen-256color
`;

export class Screen {
  readonly #socket: string;

  private constructor(socket: string) {
    this.#socket = socket;
  }

  /** starts a program, and ends it with the test; the screen stays when the program ends */
  static async of(
    command: string[],
    { env, rows = 24, columns = 80 }: { env: NodeJS.ProcessEnv; rows?: number; columns?: number },
  ): Promise<Screen> {
    const folder = await tempDir();
    await writeFile(join(folder, "settings"), settings);
    const screen = new Screen(join(folder, "socket"));
    onTestFinished(async () => {
      await screen.#tmux(["kill-server"]).catch(() => undefined);
    });
    const size = ["-x", String(columns), "-y", String(rows)];
    const start = ["-f", join(folder, "settings"), "new-session", "-d", ...size, "--", ...command];
    await screen.#tmux(start, { ...process.env, ...env });
    return screen;
  }

  /** what it shows now, without blanks at the ends of lines and lines at its end */
  async text(): Promise<string> {
    return (await this.#tmux(["capture-pane", "-p"])).trimEnd();
  }

  /** waits until it shows a match */
  async until(pattern: RegExp): Promise<string> {
    let last = "";
    const probe = async () => {
      last = await this.text();
      return pattern.test(last) ? last : undefined;
    };
    return eventually(`the screen shows ${pattern}`, probe, { everyMs: 50 }).catch((cause) => {
      throw new Error(`The screen never shows ${pattern}, but at last:\n${last}`, { cause });
    });
  }

  /** types a text as it is */
  async type(text: string): Promise<void> {
    await this.#tmux(["send-keys", "-l", "--", text]);
  }

  /** presses a key by its name, such as C-c, Enter or Tab */
  async press(...keys: string[]): Promise<void> {
    await this.#tmux(["send-keys", ...keys]);
  }

  async resize(rows: number, columns: number): Promise<void> {
    await this.#tmux(["resize-window", "-x", String(columns), "-y", String(rows)]);
  }

  /** the exit code of the program, when it has ended */
  async ended(): Promise<number> {
    const probe = async () => {
      const shown = await this.#tmux(["display-message", "-p", "#{pane_dead} #{pane_dead_status}"]);
      const [isDead, code] = shown.trim().split(" ");
      return isDead === "1" ? Number(code) : undefined;
    };
    return eventually("the program ends", probe, { everyMs: 50 }).catch(async (cause) => {
      throw new Error(`The program does not end; the screen shows:\n${await this.text()}`, { cause });
    });
  }

  async #tmux(words: string[], env?: NodeJS.ProcessEnv): Promise<string> {
    const { stdout } = await run("tmux", ["-S", this.#socket, ...words], { cwd: root, ...(env && { env }) });
    return stdout;
  }
}
