/**
 * Changes xterm so that it runs under a content security policy without inline styles: its style elements become a custom
 * element of ours that fills a constructed style sheet (src/web/terminal/style-element.ts), and styles of cells are set
 * through the object model. Another release of xterm may need another patch, so the number of places must be exact.
 */

const places: { found: string; becomes: string; count: number }[] = [
  { found: '.createElement("style")', becomes: '.createElement("sk-style")', count: 3 },
  { found: '.setAttribute("style",', becomes: ".style.cssText=(", count: 1 },
];

export function patchTerminal(text: string): string {
  return places.reduce((patched, { found, becomes, count }) => {
    const parts = patched.split(found);
    if (parts.length - 1 === count) return parts.join(becomes);
    throw new Error(`Cannot patch xterm: it has ${found} ${parts.length - 1} times, and ${count} were expected`);
  }, text);
}
