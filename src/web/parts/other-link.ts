/** Asks before a link, which anybody may have sent, replaces the session of this browser. */

import { html } from "../html.ts";
import { otherLink, signIn, visitor } from "../session.ts";
import { Question } from "./dialog.ts";

export function OtherLink() {
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
