/**
 * What pages in browsers need and what protects us from them. Any page may ask with a key of its user: a key is in a
 * header that only such a page can set, never in a cookie, so that every origin is allowed and none is trusted. Answers
 * are for the caller only, and no cache on the way may keep them for another.
 */

const longLife = "86400";

const allowed = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers":
    "retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, www-authenticate, x-next-token, x-total-running",
};

/** the answer to a browser that asks whether it may ask; undefined for any other request */
export function preflight({ method, headers }: Request): Response | undefined {
  if (method !== "OPTIONS" || !headers.has("access-control-request-method")) return undefined;
  return new Response(null, {
    status: 204,
    headers: {
      ...allowed,
      "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
      // A wildcard would leave out the one that matters (Fetch, "CORS non-wildcard request-header name").
      "access-control-allow-headers": headers.get("access-control-request-headers") ?? "authorization",
      "access-control-max-age": longLife,
      vary: "access-control-request-headers",
    },
  });
}

/** the answer of a wire, with what browsers and caches have to know */
export function forBrowsers(response: Response): Response {
  for (const [name, value] of Object.entries(allowed)) response.headers.set(name, value);
  if (!response.headers.has("cache-control")) response.headers.set("cache-control", "private");
  return response;
}
