/** Which files are shown as pictures: those whose first bytes say so. Names and SVG, which can run scripts, do not count. */

const kinds: { type: string; at: number; bytes: number[] }[] = [
  { type: "image/png", at: 0, bytes: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] },
  { type: "image/jpeg", at: 0, bytes: [0xff, 0xd8, 0xff] },
  { type: "image/gif", at: 0, bytes: [0x47, 0x49, 0x46, 0x38] },
  // "RIFF", four bytes of length, "WEBP"
  { type: "image/webp", at: 8, bytes: [0x57, 0x45, 0x42, 0x50] },
];

export function pictureType(bytes: Uint8Array): string | undefined {
  return kinds.find((kind) => kind.bytes.every((byte, index) => bytes[kind.at + index] === byte))?.type;
}
