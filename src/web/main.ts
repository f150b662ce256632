/** The dashboard's first module: signs in with the link that the page was opened with, then shows the pages. */

import { render } from "preact";
import { useEffect } from "preact/hooks";
import { startLive } from "./data/live.ts";
import { html } from "./html.ts";
import { SignIn } from "./pages/sign-in.ts";
import { Frame } from "./parts/frame.ts";
import { enter, visitor } from "./session.ts";

function App() {
  const who = visitor.value;
  const isIn = who !== undefined && who !== "unknown";
  useEffect(() => (isIn ? startLive() : undefined), [isIn]);
  if (who === "unknown") return html`<p class="waiting" role="status">Connecting …</p>`;
  return isIn ? html`<${Frame} />` : html`<${SignIn} />`;
}

const place = document.getElementById("app");
if (place) {
  render(html`<${App} />`, place);
  void enter();
}
