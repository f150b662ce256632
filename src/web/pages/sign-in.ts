/** The page for people who are not signed in: one field for a key, and the command that prints a link. */

import { html } from "../html.ts";
import { Logo } from "../parts/frame.ts";
import { signIn, signInProblem } from "../session.ts";

export function SignIn() {
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.target instanceof HTMLFormElement)) return;
    const key = new FormData(event.target).get("key");
    if (typeof key === "string" && key.trim() !== "") void signIn({ key: key.trim() });
  };
  return html`<main class="sign-in">
    <h1><${Logo} /> Sandkeep</h1>
    <form onSubmit=${submitted}>
      <label for="key">Paste an API key</label>
      <input id="key" name="key" type="password" autocomplete="off" spellcheck=${false} required autofocus />
      <button type="submit" class="primary">Sign in</button>
    </form>
    ${signInProblem.value !== "" && html`<p class="problem" role="alert">${signInProblem.value}</p>`}
    <p>On the daemon's host, this command prints a link that signs you in once:</p>
    <pre><code>sandkeep open</code></pre>
  </main>`;
}
