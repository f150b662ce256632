/** Whether `sandkeep open` opens a browser here. */

import { expect, test } from "vitest";
import { browserOf, isWebAddress } from "./open.ts";

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
