/** The dashboard's first module: signs in with the link that the page was opened with, then shows the pages. */

import { render } from "preact";
import { useEffect } from "preact/hooks";
import { startLive } from "./data/live.ts";
import { html } from "./html.ts";
import { Frame } from "./parts/frame.ts";
import { Lazy } from "./parts/lazy.ts";
import { root } from "./place.ts";
import { enter, noStanding, otherLink, visitor } from "./session.ts";

const OtherLink = Lazy(async () => (await import("./parts/other-link.ts")).OtherLink, true);
const SignIn = Lazy(async () => (await import("./pages/sign-in.ts")).SignIn);

function App() {
  const who = visitor.value;
  const isIn = who !== undefined && who !== "unknown";
  // Tabs of the same key that are about the same project share a stream.
  const name = isIn ? `${who.team}.${who.key}.${root}` : "";
  const isHere = noStanding.value === "";
  useEffect(() => {
    if (name === "") return;
    const left = new AbortController();
    void import("./data/standing.ts").then(({ readStanding }) => readStanding(left.signal));
    return () => left.abort();
  }, [name]);
  useEffect(() => (name === "" || !isHere ? undefined : startLive(name)), [name, isHere]);
  if (who === "unknown") return html`<p class="waiting" role="status">Connecting …</p>`;
  return isIn ? html`<${Frame} />${otherLink.value && html`<${OtherLink} />`}` : html`<${SignIn} />`;
}

const place = document.getElementById("app");
if (place) {
  render(html`<${App} />`, place);
  void enter();
  // A link that is pasted into an open page changes only the part after "#".
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#once=")) location.reload();
  });
}
