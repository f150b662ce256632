/** The page that asks whether E2B's command line may have a key. It loads only its own script. */

export const loginPath = "/docs/api/cli";

export interface AskingPage {
  /** where the command line waits */
  next: string;
  message?: string;
  status?: number;
}

export function askingPage({ next, message, status = 200 }: AskingPage): Response {
  const said = message === undefined ? "" : `<p role="alert"><strong>${escaped(message)}</strong></p>`;
  const body = `${said}<p>A command line on this computer, at <code>${escaped(next)}</code>, asks for an API key. Agree only if you have just run
<code>e2b auth login</code>. It gets a key of its own, which the list of keys calls “e2b auth login”; <code>e2b auth logout</code> deletes it.</p>
<form method="post" action="${loginPath}">
  <input type="hidden" name="next" value="${escaped(next)}">
  <p id="who" hidden></p>
  <label id="key">An API key of your team <input name="key" type="password" required autocomplete="off"></label>
  <button name="answer" value="approve">Create a key</button>
  <button name="answer" value="deny" formnovalidate>Refuse</button>
</form>
<script src="${loginPath}/signed-in.js"></script>`;
  // A browser applies `form-action` to the redirect that answers the form, too.
  return page("Sign in a command line", body, { status, targets: `'self' ${next}` });
}

/** without a form */
export function closingPage(text: string): Response {
  return page("Sign in a command line", `<p role="status"><strong>${escaped(text.slice(0, 300))}</strong></p>`);
}

/** replaces the field for a key if this browser is signed in to the dashboard, which keeps the binding in the storage */
const script = `
const binding = localStorage.getItem("sandkeep.binding") ?? "";
const headers = { "x-sandkeep-session": binding };
const form = document.querySelector("form");
const said = document.querySelector("#who");
async function signedIn() {
  const answer = binding && await fetch("${loginPath}/session", { headers });
  if (!answer || !answer.ok) return;
  const { team } = await answer.json();
  said.textContent = "You are signed in to the team " + team + ".";
  said.hidden = false;
  document.querySelector("#key").remove();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    const done = await fetch("${loginPath}", { method: "POST", headers, body: fields });
    const { location: next, message } = await done.json();
    if (next) location.replace(next);
    else said.textContent = message;
  });
}
void signedIn();
`;

export function loginScript(): Response {
  return new Response(script, { headers: { ...headers, "content-type": "text/javascript; charset=utf-8" } });
}

const headers = {
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

function page(title: string, body: string, { status = 200, targets = "'none'" } = {}): Response {
  const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sandkeep: ${title.toLowerCase()}</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 32rem; margin: 4rem auto; padding: 0 1rem; }
  input { display: block; width: 100%; box-sizing: border-box; padding: .5rem; font: inherit; margin-bottom: 1rem; }
  button { padding: .5rem 1rem; font: inherit; }
</style>
<h1>${title}</h1>
${body}
</html>
`;
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "connect-src 'self'",
    "style-src 'unsafe-inline'",
    `form-action ${targets}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join("; ");
  return new Response(html, {
    status,
    headers: { ...headers, "content-type": "text/html; charset=utf-8", "content-security-policy": policy },
  });
}

function escaped(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (char) => entities[char] ?? "");
}
