/**
 * Byte strings: the bytes of a name, each as one character. Linux allows any bytes in a name, but text only some, and a
 * name that went through text would come out as another one.
 */

import { isUtf8 } from "node:buffer";

export function byteString(text: string): string {
  return isAscii(text) ? text : Buffer.from(text).toString("latin1");
}

export function bytesOf(name: string): Buffer {
  return Buffer.from(name, "latin1");
}

/** the text for people; bytes that are no text become U+FFFD */
export function shownText(name: string): string {
  return isAscii(name) ? name : bytesOf(name).toString();
}

/** the text, if the bytes are UTF-8 */
export function textOf(name: string): string | undefined {
  if (isAscii(name)) return name;
  const bytes = bytesOf(name);
  return isUtf8(bytes) ? bytes.toString() : undefined;
}

function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}
