/**
 * What the patched xterm makes instead of style elements (src/api/dashboard/terminal-patch.ts): its text becomes a style
 * sheet of the document, which the content security policy permits.
 */

class StyleElement extends HTMLElement {
  readonly #sheet = new CSSStyleSheet();

  override get textContent(): string {
    return "";
  }

  override set textContent(text: string) {
    this.#sheet.replaceSync(text);
  }

  connectedCallback(): void {
    document.adoptedStyleSheets.push(this.#sheet);
  }

  disconnectedCallback(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== this.#sheet);
  }
}

export function defineStyleElement(): void {
  if (!customElements.get("sk-style")) customElements.define("sk-style", StyleElement);
}
