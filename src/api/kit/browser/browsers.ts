/**
 * CORS and cache headers for pages in browsers. A page sends its user's key in a header, never in a cookie, so a page
 * without a key can do nothing. Every origin is therefore allowed, and none is trusted. Answers are private to the
 * caller: shared caches must not store them.
 */

import { addHeaders } from "../http.ts";

const longLife = "86400";

const allowed = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers":
    "retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, www-authenticate, x-next-token, x-total-running",
};

const everyAnswer = { ...allowed, "cache-control": "private" };

/** the answer to a CORS preflight request; undefined for any other request */
export function preflight({ method, headers }: Request): Response | undefined {
  if (method !== "OPTIONS" || !headers.has("access-control-request-method")) return undefined;
  return new Response(null, {
    status: 204,
    headers: {
      ...allowed,
      "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
      // A wildcard would not cover `authorization` (Fetch, "CORS non-wildcard request-header name").
      "access-control-allow-headers": headers.get("access-control-request-headers") ?? "authorization",
      "access-control-max-age": longLife,
      vary: "access-control-request-headers",
    },
  });
}

/** adds the headers for browsers and caches to a wire's answer */
export function forBrowsers(response: Response): Response {
  addHeaders(response, everyAnswer);
  return response;
}
