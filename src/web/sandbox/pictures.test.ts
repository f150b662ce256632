/** Which files of a sandbox are shown as pictures. */

import { expect, test } from "vitest";
import { pictureType } from "./pictures.ts";

const bytes = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));

test.each([
  ["\u0089PNG\r\n\u001a\n…", "image/png"],
  ["\u00ff\u00d8\u00ff\u00e0", "image/jpeg"],
  ["GIF89a", "image/gif"],
  ["RIFF\u0001\u0002\u0003\u0004WEBP", "image/webp"],
  ["<svg onload=alert(1)>", undefined],
  ["<html>", undefined],
  ["", undefined],
])("the bytes %j are a picture of type %s", (text, type) => {
  expect(pictureType(bytes(text))).toBe(type);
});
