/** Terminals: the vendor's command line on a real one, the SDK's method, and the protocol byte by byte. */

import { createHash } from "node:crypto";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { daemonOfFile } from "../../harness/daemon.ts";
import { needs } from "../../runner/needs.ts";
import {
  type CliVersion,
  cliCommand,
  cliEnvironment,
  credentials,
  linkedHome,
  raw,
  sandboxOf,
  sdks,
  waysTo,
} from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";
import { Typist } from "./typist.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

/** the prompt of a shell in its first directory: /vercel on /v3, below that elsewhere */
const prompt = /\/vercel/;

describe.each<CliVersion>(["4.5.0", "3.5.5"])("sandbox %s on a terminal", (version) => {
  beforeEach((context) => needs(context, "the command python3"));

  test("sh gives a shell whose size follows the window and whose exit code is the command's", async () => {
    const name = `sh-${version.replaceAll(".", "-")}`;
    // The older one has no --rm for it.
    const isNewer = version === "4.5.0";
    const shell = await onTerminal(version, ["sh", ...(isNewer ? ["--rm"] : []), "--name", name]);
    await shell.until(prompt);
    shell.type("stty size; tty; echo $TERM\n");
    await shell.until(/24 80\s+\/dev\/pts\/\d+\s+xterm-256color/);
    shell.resize(40, 100);
    // The size is sent separately: the shell waits for it.
    shell.type("until stty size | grep '40 100'; do :; done; exit 7\n");
    // the echoed input has a quote before it, and the prompt may come in between
    await shell.until(/[^']40 100/);
    expect(await shell.ended, shell.output).toBe(7);
    expect((await raw(daemon(), "DELETE", `/v2/sandboxes/${name}`)).status).toBe(isNewer ? 404 : 200);
  });

  test("exec -i runs a command in one, as root if asked, and ssh a shell in a sandbox that was stopped", async () => {
    const name = `ssh-${version.replaceAll(".", "-")}`;
    const { json } = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name, env: { KEPT: "env" } } });
    const script = "id -un; read x; echo got $x; exit 5";
    const reader = await onTerminal(version, ["exec", "-i", "--sudo", name, "--", "sh", "-c", script]);
    await reader.until(/root/);
    reader.type("typed\n");
    await reader.until(/got typed/);
    expect(await reader.ended, reader.output).toBe(5);
    await raw(daemon(), "POST", `/v2/sandboxes/sessions/${json.session.id}/stop`);
    const shell = await onTerminal(version, ["ssh", name]);
    await shell.until(prompt);
    shell.type("echo $KEPT-ok; exit 3\n");
    await shell.until(/env-ok/);
    expect(await shell.ended, shell.output).toBe(3);
    await raw(daemon(), "DELETE", `/v2/sandboxes/${name}`);
  });

  test("run -i and create --connect start a sandbox of their own", async () => {
    const name = `connect-${version.replaceAll(".", "-")}`;
    const script = "tty; read x; exit $x";
    const running = await onTerminal(version, ["run", "-i", "--rm", "--name", name, "--", "sh", "-c", script]);
    await running.until(/\/dev\/pts\/\d+/);
    running.type("4\n");
    expect(await running.ended, running.output).toBe(4);
    expect((await raw(daemon(), "GET", `/v2/sandboxes/${name}`)).status).toBe(404);
    const connected = await onTerminal(version, ["create", "--connect", "--name", name]);
    await connected.until(prompt);
    connected.type("exit 6\n");
    expect(await connected.ended, connected.output).toBe(6);
    expect((await raw(daemon(), "DELETE", `/v2/sandboxes/${name}`)).status).toBe(200);
  });
});

describe.each(waysTo(daemon))("$name", (way) => {
  const sandbox = sandboxOf(() => way.Sandbox.create({ ...way.auth }));

  test("openInteractive opens a terminal, also in a sandbox that was stopped", async () => {
    await sandbox().stop();
    const { url, token } = await sandbox().openInteractive();
    const terminal = await Terminal.open(`${url}?token=${token}`);
    terminal.start({ command: "sh", args: ["-c", "echo $HELLO; exit 6"], env: ["HELLO=wörld"], cols: 80, rows: 24 });
    expect(await terminal.ended).toEqual({ code: 6, closed: 1000 });
    expect(terminal.output).toBe("wörld\r\n");
  });
});

describe("the protocol", () => {
  const sandbox = sandboxOf(() => sdks["3.5.0"].Sandbox.create({ ...credentials(daemon()), persistent: false }));
  const grant = async () => {
    const { url, token } = await sandbox().openInteractive();
    return `${url}?token=${token}`;
  };

  test("carries bytes both ways, of any size", async () => {
    const terminal = await Terminal.open(await grant());
    const script = "stty raw -echo; echo ready; head -c 300000 | sha256sum";
    terminal.start({ command: "sh", args: ["-c", script], cols: 80, rows: 24 });
    await terminal.until("ready");
    const bytes = Buffer.alloc(100_000, "0123456789abcdef\0\x01\x03\x04");
    for (let n = 0; n < 3; n++) terminal.send(bytes);
    const hash = createHash("sha256")
      .update(Buffer.concat([bytes, bytes, bytes]))
      .digest("hex");
    expect((await terminal.ended).code).toBe(0);
    expect(terminal.output).toContain(hash);
  });

  test("a size of zero becomes the default size", async () => {
    const terminal = await Terminal.open(await grant());
    terminal.start({ command: "stty", args: ["size"], cols: 0, rows: 0 });
    expect((await terminal.ended).code).toBe(0);
    expect(terminal.output).toBe("24 80\r\n");
  });

  test("a lost connection is made again with the same token, and no output is lost or repeated", async () => {
    const url = await grant();
    const first = await Terminal.open(url);
    const script = "echo one; read x; echo two; read y; echo three; exit 4";
    first.start({ command: "sh", args: ["-c", script], cols: 80, rows: 24 });
    await first.until("one");
    first.lose();
    const second = await Terminal.open(url);
    second.send("a\n");
    await second.until("two");
    second.send("b\n");
    expect((await second.ended).code).toBe(4);
    expect(`${first.output}${second.output}`).toBe("one\r\na\r\ntwo\r\nb\r\nthree\r\n");
  });

  test("a missing program is reported as an exit code", async () => {
    const terminal = await Terminal.open(await grant());
    terminal.start({ command: "no-such-program", cols: 80, rows: 24 });
    expect((await terminal.ended).code).toBe(127);
    expect(terminal.output).toContain("no-such-program");
  });

  test("a connection needs the token of this session", async () => {
    const url = await grant();
    const other = await sdks["3.5.0"].Sandbox.create({ ...credentials(daemon()), persistent: false });
    const wrong = [
      url.replace(/token=.*/, "token=wrong"),
      url.replace(/\?.*/, ""),
      url.replace(sandbox().currentSession().sessionId, other.currentSession().sessionId),
    ];
    for (const address of wrong) await expect(Terminal.open(address)).rejects.toThrow("401");
    await expect(Terminal.open(url.replace("/interactive/", "/elsewhere/"))).rejects.toThrow("404");
    await other.delete();
  });

  test("malformed input ends the connection, not the daemon", async () => {
    for (const nonsense of ["no json", "{}", '{"type":"start"}', '{"type":"start","command":1}', "[]", "null"]) {
      const terminal = await Terminal.open(await grant());
      terminal.say(nonsense);
      expect((await terminal.ended).closed, nonsense).toBe(1003);
    }
    expect((await raw(daemon(), "GET", "/health")).status).toBe(200);
  });

  test("a terminal whose session ends gets its end", async () => {
    const gone = await sdks["3.5.0"].Sandbox.create({ ...credentials(daemon()), persistent: false });
    const { url, token } = await gone.openInteractive();
    const terminal = await Terminal.open(`${url}?token=${token}`);
    terminal.start({ command: "sh", args: ["-c", "echo up; exec sleep 600"], cols: 80, rows: 24 });
    await terminal.until("up");
    await gone.stop();
    expect((await terminal.ended).code).toBe(137);
    await gone.delete();
  });
});

/** the command line on a terminal, in a directory that is linked to the default project */
async function onTerminal(version: CliVersion, args: string[]): Promise<Typist> {
  const home = await linkedHome();
  return new Typist(cliCommand(version, args), { env: cliEnvironment(daemon(), home), cwd: home });
}

interface Start {
  command: string;
  args?: string[];
  env?: string[];
  cwd?: string;
  cols: number;
  rows: number;
}

/** The client's end of a terminal. */
class Terminal {
  readonly #socket: WebSocket;
  readonly #chunks: Buffer[] = [];
  #heard: () => void = () => undefined;
  /** the exit code, if one was sent, and how the connection was closed */
  readonly ended: Promise<{ code?: number; closed: number }>;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    let code: number | undefined;
    this.ended = new Promise((resolve) => {
      socket.on("message", (data: Buffer, isBinary) => {
        if (isBinary) this.#chunks.push(data);
        else code = JSON.parse(data.toString()).code;
        this.#heard();
      });
      socket.on("close", (closed) => resolve({ ...(code !== undefined && { code }), closed }));
    });
  }

  static open(url: string): Promise<Terminal> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(url);
      const terminal = new Terminal(socket);
      socket.once("open", () => resolve(terminal));
      socket.once("error", reject);
    });
  }

  get output(): string {
    return Buffer.concat(this.#chunks).toString();
  }

  start(start: Start): void {
    this.say(JSON.stringify({ type: "start", args: [], env: [], cwd: "/vercel/sandbox", ...start }));
  }

  say(message: string): void {
    this.#socket.send(message);
  }

  send(input: string | Buffer): void {
    this.#socket.send(Buffer.from(input));
  }

  /** breaks the connection, as a failing network does */
  lose(): void {
    this.#socket.terminate();
  }

  async until(text: string): Promise<void> {
    while (!this.output.includes(text)) {
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
  }
}
