/** The dashboard's one HTML page, and the headers that limit what a browser lets it do. */

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** of the page and of every file that it loads */
export const safeHeaders = {
  "content-security-policy": policy,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

export const pageHeaders = {
  ...safeHeaders,
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
};

/** modules of the first view, which the browser fetches at once instead of one after the other */
const preloaded = ["web/main", "npm/preact.js", "npm/hooks.js", "npm/signals.js", "npm/signals-core.js", "npm/htm.js"];

/** `version` is the address below which this version's files are, and the names of its modules */
export function page({ base, extension }: { base: string; extension: string }): string {
  const address = (name: string) => `${base}/${name}${name.startsWith("npm/") ? "" : extension}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sandkeep</title>
<link rel="icon" href="${base}/web/icon.svg">
<link rel="stylesheet" href="${base}/web/tokens.css">
<link rel="stylesheet" href="${base}/web/frame.css">
<link rel="stylesheet" href="${base}/web/views.css">
<link rel="stylesheet" href="${base}/web/sandbox.css">
${preloaded.map((name) => `<link rel="modulepreload" href="${address(name)}">`).join("\n")}
<script type="module" src="${address("web/main")}"></script>
</head>
<body><div id="app"></div><noscript>The dashboard needs JavaScript.</noscript></body>
</html>
`;
}
