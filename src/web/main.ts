/** The dashboard's first module: signs in with the link that the page was opened with, then shows the pages. */

import { render } from "preact";
import { useEffect } from "preact/hooks";
import { startLive } from "./data/live.ts";
import { html } from "./html.ts";
import { Question } from "./parts/dialog.ts";
import { Frame } from "./parts/frame.ts";
import { Lazy } from "./parts/lazy.ts";
import { enter, otherLink, signIn, visitor } from "./session.ts";

const SignIn = Lazy(async () => (await import("./pages/sign-in.ts")).SignIn);

function App() {
  const who = visitor.value;
  const isIn = who !== undefined && who !== "unknown";
  const name = isIn ? `${who.team}.${who.key}` : "";
  useEffect(() => (name === "" ? undefined : startLive(name)), [name]);
  if (who === "unknown") return html`<p class="waiting" role="status">Connecting …</p>`;
  return isIn ? html`<${Frame} /><${OtherLink} />` : html`<${SignIn} />`;
}

/** asks before a link, which anybody may have sent, replaces the session of this browser */
function OtherLink() {
  if (!otherLink.value) return null;
  const { once, text } = otherLink.value;
  const close = () => {
    otherLink.value = undefined;
  };
  const replace = async () => {
    await signIn({ once, replace: true });
    // What this page has read belongs to the session before.
    if (visitor.value !== undefined) location.reload();
  };
  return html`<${Question} title="Replace your session?" text=${text} verb="Sign in with the link" act=${() => void replace()} close=${close} />`;
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
