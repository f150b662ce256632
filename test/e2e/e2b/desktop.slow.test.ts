/**
 * The image of `sandkeep image build desktop`, through the vendor's own desktop SDK, unmodified. Slow, because it needs a
 * package mirror and minutes.
 */

import { execFile } from "node:child_process";
import { request } from "node:http";
import { promisify } from "node:util";
import { Sandbox } from "@e2b/desktop";
import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { outOfReach } from "../../runner/excuses.ts";
import { demand } from "../../runner/needs.ts";
import { useDaemon } from "./e2b.ts";

const run = promisify(execFile);
const daemon = daemonOfFile({ SANDKEEP_POOL_HOT: "0", SANDKEEP_DOMAIN: "desk.example" });
useDaemon(daemon);
let isReached = true;

beforeAll(async () => {
  demand("root", "the guest binary", "the command mmdebstrap");
  const { dataDir, runDir } = daemon();
  const places = ["--data-dir", dataDir, "--run-dir", runDir];
  await run(sandkeepCommand(), ["image", "build", "desktop", ...places], { maxBuffer: 64 << 20 }).catch(
    (error: Error) => {
      isReached = !/Could not (resolve|connect)|Failed to fetch|Temporary failure/i.test(error.message);
      if (isReached) throw error;
    },
  );
}, 1_800_000);
beforeEach((context) => context.skip(!isReached, outOfReach("Debian's archive")));

let made: Sandbox | undefined;
/** the desktop of these tests; each test uses it as the one before left it */
async function desktop(): Promise<Sandbox> {
  made ??= await Sandbox.create({ resolution: [1280, 720], timeoutMs: 1_800_000 });
  return made;
}
/** waits as long as a busy machine needs */
const patience = { timeout: 240_000, interval: 500 };
const whole = 900_000;

test(
  "the default template of the SDK is the image, and its desktop has the size that was asked for",
  async () => {
    const sandbox = await desktop();
    expect(await sandbox.getInfo()).toMatchObject({ templateId: "desktop" });
    expect(await sandbox.getScreenSize()).toEqual({ width: 1280, height: 720 });
    const picture = Buffer.from(await sandbox.screenshot());
    expect(picture.subarray(1, 4).toString()).toBe("PNG");
    // Width and height of a PNG are in its first chunk.
    expect([picture.readUInt32BE(16), picture.readUInt32BE(20)]).toEqual([1280, 720]);
  },
  whole,
);

test(
  "the mouse goes where it is sent, and presses what is there",
  async () => {
    const sandbox = await desktop();
    await sandbox.moveMouse(200, 300);
    expect(await sandbox.getCursorPosition()).toEqual({ x: 200, y: 300 });
    await sandbox.drag([100, 100], [140, 160]);
    expect(await sandbox.getCursorPosition()).toEqual({ x: 140, y: 160 });
    for (const click of ["leftClick", "rightClick", "middleClick", "doubleClick"] as const)
      await sandbox[click](500, 400);
    await sandbox.scroll("up", 2);
    await sandbox.press("escape");
  },
  whole,
);

test(
  "an editor that is launched gets what is typed, with every character, and saves it",
  async () => {
    const sandbox = await desktop();
    await sandbox.files.write("/home/user/note.txt", "");
    await sandbox.launch("org.xfce.mousepad", "/home/user/note.txt");
    const window = await vi.waitFor(async () => {
      const [first = ""] = await sandbox.getApplicationWindows("mousepad");
      expect(await sandbox.getWindowTitle(first)).toContain("note.txt");
      return first;
    }, patience);
    await sandbox.commands.run(`xdotool windowactivate --sync ${window}`);
    expect(await sandbox.getCurrentWindowId()).toMatch(/^\d+$/);
    // For a character without a key, xdotool borrows one for a moment; a program on a busy host may look it up too late.
    await vi.waitFor(async () => {
      await sandbox.press(["ctrl", "a"]);
      await sandbox.write("Hello, 'World' & $HOME äß 100%");
      await sandbox.press("enter");
      await sandbox.press(["ctrl", "s"]);
      expect(await sandbox.files.read("/home/user/note.txt")).toContain("Hello, 'World' & $HOME äß 100%");
    }, patience);
  },
  whole,
);

test(
  "an address opens in the browser that is launched, and a file in the program for it",
  async () => {
    const sandbox = await desktop();
    await sandbox.files.write("/home/user/page.html", "<title>Own page</title><body>It is here</body>");
    await sandbox.files.write("/home/user/other.html", "<title>Other page</title>");
    await sandbox.launch("firefox", "file:///home/user/page.html");
    await windowNamed(sandbox, "Own page.*Firefox");
    await sandbox.launch("google-chrome", "file:///home/user/page.html");
    await windowNamed(sandbox, "Own page.*Chromium");
    await sandbox.open("/home/user/other.html");
    await windowNamed(sandbox, "Other page");
  },
  whole,
);

/** waits for a window whose title matches */
async function windowNamed(sandbox: Sandbox, title: string): Promise<void> {
  await vi.waitFor(() => sandbox.commands.run(`xdotool search --onlyvisible --name '${title}'`), patience);
}

test(
  "the screen is a page at a port of the sandbox, and its stream wants the key",
  async () => {
    const sandbox = await desktop();
    await sandbox.stream.start({ requireAuth: true });
    const url = new URL(sandbox.stream.getUrl({ authKey: sandbox.stream.getAuthKey() }));
    const { port } = new URL(daemon().url);
    expect(url.host).toBe(`${sandbox.getHost(6080)}`);
    expect(url.searchParams.get("password")).toBe(sandbox.stream.getAuthKey());
    const page = await new Promise<string>((resolve, reject) => {
      request({ port, path: `${url.pathname}${url.search}`, headers: { host: url.host } }, async (answer) => {
        const parts = await answer.toArray();
        resolve(`${answer.statusCode} ${Buffer.concat(parts)}`);
      })
        .once("error", reject)
        .end();
    });
    expect(page).toMatch(/^200 [\s\S]*noVNC/);
    // The server of the protocol begins with its version and then names its kinds of authentication: 2 is a password.
    const socket = new WebSocket(`ws://127.0.0.1:${port}/websockify`, "binary", { headers: { host: url.host } });
    const received: Buffer[] = [];
    socket.on("message", (data: Buffer) => {
      received.push(data);
      if (received.length === 1) socket.send(Buffer.from("RFB 003.008\n"));
    });
    await vi.waitFor(() => expect(received).toHaveLength(2), patience);
    expect(received.map((data) => data.toString("latin1"))).toEqual(["RFB 003.008\n", "\u0001\u0002"]);
    socket.terminate();
    await sandbox.stream.stop();
    await vi.waitFor(
      async () => expect((await sandbox.commands.run("pgrep x11vnc || true")).stdout).toBe(""),
      patience,
    );
  },
  whole,
);

test(
  "a pause freezes the desktop, and its windows are there afterwards",
  async () => {
    const sandbox = await desktop();
    await sandbox.launch("galculator");
    await vi.waitFor(() => sandbox.getApplicationWindows("galculator"), patience);
    await sandbox.pause();
    const resumed = await Sandbox.connect(sandbox.sandboxId);
    expect((await resumed.commands.run("DISPLAY=:0 xdotool search --onlyvisible --class galculator")).stdout).not.toBe(
      "",
    );
    await sandbox.kill();
  },
  whole,
);
