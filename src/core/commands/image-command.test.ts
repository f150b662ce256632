/** The program of an image and its stop signal: what runs, what counts as it, and how long a stop waits for it. */

import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import { plainConfig } from "../model/image.ts";
import type { ImageInfo } from "../ports/images.ts";
import type { Machine } from "../ports/runtime.ts";
import { askToEnd, imageCommand, isProgramOf, stopSignal } from "./image-command.ts";

const image = (config: Partial<ImageInfo["config"]>): ImageInfo => ({
  ...{ name: "app", layers: [], env: {}, user: "root", cwd: "/", createdAt: 0 },
  config: { ...plainConfig(), ...config },
});

test("arguments replace the CMD of an image, never its ENTRYPOINT", () => {
  const both = image({ entrypoint: ["/run", "-x"], command: ["serve"] });
  expect(imageCommand(both, [])).toEqual(["/run", "-x", "serve"]);
  expect(imageCommand(both, ["check", "it"])).toEqual(["/run", "-x", "check", "it"]);
  expect(imageCommand(image({ command: ["sh", "-c", "date"] }), [])).toEqual(["sh", "-c", "date"]);
  expect(() => imageCommand(image({}), [])).toThrow(
    'Cannot run the command of the image: the image "app" has neither ENTRYPOINT nor CMD',
  );
  expect(() => imageCommand(undefined, [])).toThrow(/neither ENTRYPOINT nor CMD/);
});

test("a command is the image's program whatever its arguments are", () => {
  const config = { entrypoint: ["/run", "-x"], command: ["serve"] };
  expect(isProgramOf(config, { name: "/run", args: ["-x", "other"] })).toBe(true);
  expect(isProgramOf(config, { name: "/run", args: [] })).toBe(false);
  expect(isProgramOf({ entrypoint: [], command: [] }, { name: "/run", args: [] })).toBe(false);
});

test("a stop signal is a name or a number, and SIGTERM if it is neither", () => {
  const numbers = { SIGINT: 2, quit: 3, "9": 9, "SIGRTMIN+3": 37, "RTMAX-1": 63 };
  for (const [text, number] of Object.entries(numbers)) expect(stopSignal({ stopSignal: text }), text).toBe(number);
  for (const text of [undefined, "", "SIGNO", "0", "65", "RTMIN+40", "__PROTO__"])
    expect(stopSignal({ stopSignal: text }), text).toBe(15);
});

test("the image's program gets its stop signal, others get SIGTERM, and the wait ends when all have ended", async () => {
  const sent: [string, number, boolean][] = [];
  const process = (id: string) => {
    const { promise: exited, resolve } = Promise.withResolvers<void>();
    const signal = async (number: number, { alone = false } = {}) => {
      sent.push([id, number, alone]);
      resolve();
    };
    return { id, exited, signal };
  };
  const machine = { id: "m", image: "app@1", processes: () => [process("main"), process("other")] };
  const commands = [
    { id: "main", name: "/run", args: ["serve"] },
    { id: "other", name: "sleep", args: ["9"] },
  ];
  const context = {
    runtime: { images: { get: async () => image({ entrypoint: ["/run"], stopSignal: "SIGQUIT" }) } },
    store: { openCommands: async () => commands },
  } as unknown as Context; // it uses nothing else
  await askToEnd(context, machine as unknown as Machine, 60_000);
  expect(sent).toEqual([
    ["main", 3, true],
    ["other", 15, false],
  ]);
  const deaf = { ...machine, processes: () => [{ ...process("x"), exited: new Promise(() => undefined) }] };
  await askToEnd(context, deaf as unknown as Machine, 1);
});
