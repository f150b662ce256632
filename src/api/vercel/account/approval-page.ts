/** The page on which a person approves a command line's login, by entering its code and a key. */

export const approvalPath = "/login/device";

export interface ApprovalPage {
  userCode?: string;
  message?: string;
  /** whether to leave out the form, because there is nothing left to do */
  done?: boolean;
  status?: number;
}

export function approvalPage({ userCode = "", message, done = false, status = 200 }: ApprovalPage): Response {
  const said = message === undefined ? "" : `<p role="status"><strong>${escaped(message)}</strong></p>`;
  const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sandkeep: approve a login</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 28rem; margin: 4rem auto; padding: 0 1rem; }
  input { display: block; width: 100%; box-sizing: border-box; padding: .5rem; font: inherit; margin-bottom: 1rem; }
  button { padding: .5rem 1rem; font: inherit; }
</style>
<h1>Approve a login</h1>
${said}${done ? "" : fields(userCode)}
</html>
`;
  return new Response(html, { status, headers });
}

/** the page loads nothing from elsewhere, cannot be framed, and is not cached */
const headers = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

function fields(userCode: string): string {
  return `<p>A command line wants to use this Sandkeep. Check that it shows this code.</p>
<form method="post" action="${approvalPath}">
  <label>Code <input name="user_code" value="${escaped(userCode.slice(0, 32))}" required autocomplete="off"></label>
  <label>API key <input name="key" type="password" required autocomplete="off"></label>
  <button name="answer" value="approve">Approve</button>
  <button name="answer" value="deny">Deny</button>
</form>`;
}

function escaped(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (char) => entities[char] ?? "");
}
