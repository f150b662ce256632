/** Whether `sandkeep open` opens a browser here. */

import { expect, test } from "vitest";
import { serve } from "../../../test/harness/images/test-registry.ts";
import type { CommandContext } from "../command.ts";
import { browserOf, isWebAddress, openCommand } from "./open.ts";

test.each([
  ["on a desktop", { DISPLAY: ":0" }, true, "xdg-open"],
  ["on a desktop with Wayland", { WAYLAND_DISPLAY: "wayland-0" }, true, "xdg-open"],
  ["with a browser of the user's", { BROWSER: "/opt/browser" }, true, "/opt/browser"],
  ["with a list of browsers", { BROWSER: "one:two %s", DISPLAY: ":0" }, true, "xdg-open"],
  ["without a desktop", {}, true, undefined],
  ["for a program that reads the link", { DISPLAY: ":0", BROWSER: "firefox" }, false, undefined],
])("%s", (_, environment, isTTY, program) => {
  // Only this member of the stream is read.
  const output = { isTTY } as NodeJS.WriteStream;
  expect(browserOf({ environment, output })).toBe(program);
});

test.each([
  ["http://127.0.0.1:7700/ui/#once=0123456789abcdef0123456789abcdef", true],
  ["https://[::1]:7700/ui/#once=0", true],
  ["--gpu-launcher=/bin/sh", false],
  ["file:///etc/passwd", false],
  ["javascript:alert(1)", false],
  ["http://a b", false],
  ["http://", false],
])("a daemon's answer %j is opened: %s", (url, isOpened) => {
  expect(isWebAddress(url)).toBe(isOpened);
});

test("no browser starts with a word of the daemon that is no address", async () => {
  const host = await serve((_, response) => response.end(JSON.stringify({ url: "--version", expiresAt: 1 })));
  // Only these members are used before a browser would start.
  const context = {
    environment: { BROWSER: "/no/such/browser", SANDKEEP_API_KEY: "sk_x" },
    dataDirs: [],
    output: { isTTY: true },
  } as unknown as CommandContext;
  await expect(openCommand(["--url", `http://${host}`], context)).rejects.toThrow("no address of a page");
});
