/**
 * Compares two pictures, in a browser, which can read them. Browsers draw the edges of letters and lines a little
 * differently from version to version, so a pixel may have a colour that is between those around it in the other picture,
 * or beyond them by a part of how far they are apart. In a flat area they are the same: there every change of colour shows.
 */

import type { Page } from "playwright-core";

export interface Difference {
  /** pixels that the other picture has nothing like; all of them if the sizes differ */
  pixels: number;
  /** the smallest box around them */
  box: { left: number; top: number; right: number; bottom: number };
}

/** how much a colour may differ from those in the other picture, in each of red, green and blue, of 255 */
const tolerance = 8;
/** the part of the contrast around a pixel that is tolerated besides */
const ofContrast = 0.5;

/** `page` may show anything; the pictures are PNG */
export async function differenceOf(page: Page, one: Buffer, other: Buffer): Promise<Difference> {
  const texts = [one, other].map((bytes) => bytes.toString("base64")) as [string, string]; // two go in
  return page.evaluate(compareInPage, { texts, tolerance, ofContrast });
}

/** runs in the page */
async function compareInPage(sent: {
  texts: [string, string];
  tolerance: number;
  ofContrast: number;
}): Promise<Difference> {
  const read = async (text: string) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const { width, height } = picture;
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context?.drawImage(picture, 0, 0);
    const colours = context?.getImageData(0, 0, width, height).data ?? new Uint8ClampedArray();
    return { width, height, colours, pixels: new Uint32Array(colours.buffer) };
  };
  type Picture = Awaited<ReturnType<typeof read>>;
  const one = await read(sent.texts[0]);
  const other = await read(sent.texts[1]);
  const { width, height } = one;
  if (width !== other.width || height !== other.height) {
    return { pixels: width * height, box: { left: 0, top: 0, right: width, bottom: height } };
  }
  /** whether the pixel at x and y has a colour between those around this place in the other picture */
  const isBetween = (mine: Picture, theirs: Picture, x: number, y: number): boolean => {
    for (let part = 0; part < 3; part++) {
      let [least, most] = [255, 0];
      for (let row = Math.max(0, y - 1); row <= Math.min(height - 1, y + 1); row++) {
        for (let column = Math.max(0, x - 1); column <= Math.min(width - 1, x + 1); column++) {
          const value = theirs.colours[(row * width + column) * 4 + part] ?? 0;
          least = Math.min(least, value);
          most = Math.max(most, value);
        }
      }
      const value = mine.colours[(y * width + x) * 4 + part] ?? 0;
      const more = sent.tolerance + (most - least) * sent.ofContrast;
      if (value < least - more || value > most + more) return false;
    }
    return true;
  };
  const found: Difference = { pixels: 0, box: { left: width, top: height, right: 0, bottom: 0 } };
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const isSame = one.pixels[y * width + x] === other.pixels[y * width + x];
      if (isSame || (isBetween(one, other, x, y) && isBetween(other, one, x, y))) continue;
      found.pixels++;
      const { left, top, right, bottom } = found.box;
      found.box = {
        left: Math.min(left, x),
        top: Math.min(top, y),
        right: Math.max(right, x + 1),
        bottom: Math.max(bottom, y + 1),
      };
    }
  }
  return found;
}
