/**
 * Loaded into another program's Node (18 or later) by NODE_OPTIONS="--import …". It sends the calls of Vercel's sandbox
 * SDK and CLI to Vercel's hosts, and of E2B's SDK 1 to E2B's, to the daemon at SANDKEEP_URL instead. Those packages
 * have a fixed address and use the global fetch for each call, so this wraps it. Every other call passes untouched.
 *
 *   https://vercel.com/api/…, https://vercel.com/.well-known/…    → SANDKEEP_URL, same path
 *   https://api.vercel.com/…                                      → SANDKEEP_URL/api/…
 *   https://<subdomain>.vercel.run/…                              → SANDKEEP_URL, for <subdomain>.<SANDKEEP_DOMAIN>
 *   https://api.e2b.app/…                                         → SANDKEEP_URL, same path
 *   https://<port>-<sandbox>.e2b.app/…                            → SANDKEEP_URL, for <port>-<sandbox>.<SANDKEEP_DOMAIN>
 *   https://<port>-<sandbox>.<SANDKEEP_DOMAIN>:<port of SANDKEEP_URL>/…   the same, without TLS where SANDKEEP_URL has none
 *   https://<host of SANDKEEP_URL>/health                         → SANDKEEP_URL/health
 *
 * Names below .localhost, which are the addresses of ports, resolve to the loopback address: browsers do that, but most
 * C libraries do not.
 *
 * Plain JavaScript without dependencies, because it cannot rely on anything else.
 */

import dns from "node:dns";

const installed = Symbol.for("sandkeep.redirect");

if (!(installed in globalThis)) {
  Object.defineProperty(globalThis, installed, { value: true });
  const daemon = daemonUrl(process.env.SANDKEEP_URL);
  if (daemon) install(daemon, process.env.SANDKEEP_DOMAIN || "localhost");
}

/**
 * @param {string | undefined} setting
 * @returns {URL | undefined}
 */
function daemonUrl(setting) {
  if (!setting) {
    say("SANDKEEP_URL is not set, so nothing is redirected");
    return undefined;
  }
  const url = parsed(setting);
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  say(`Cannot redirect to SANDKEEP_URL "${setting}": it must be a URL that begins with http:// or https://`);
  return undefined;
}

/**
 * @param {URL} daemon
 * @param {string} domain
 */
function install(daemon, domain) {
  // Vercel's CLI would otherwise check for updates at Vercel and send telemetry.
  process.env.VERCEL_TELEMETRY_DISABLED ||= "1";
  process.env.SANDBOX_SKIP_VERSION_CHECK ||= "1";

  const original = globalThis.fetch;
  /** @type {typeof fetch} */
  const redirected = async (input, init) => {
    const asked = parsed(isRequest(input) ? input.url : String(input));
    const url = asked && destination(asked, daemon, domain);
    if (!url) return original(input, init);
    // A Request has its own method, headers and body; `init` overrides them, as in fetch.
    const target = isRequest(input) ? new Request(url, /** @type {RequestInit} */ (input)) : url;
    const options = url.host === daemon.host ? init : { ...init, dispatcher: connector(daemon, domain, init) };
    try {
      return await original(target, /** @type {RequestInit} */ (options));
    } catch (error) {
      noteUnreachable(daemon, error);
      throw error;
    }
  };
  globalThis.fetch = redirected;
  resolveLocalhost();
}

let isNoted = false;

/**
 * reports, once, that the daemon cannot be reached: programs print only "fetch failed"
 * @param {URL} daemon
 * @param {unknown} error
 */
function noteUnreachable(daemon, error) {
  const { cause } = /** @type {{ cause?: { code?: string, message?: string } }} */ (error ?? {});
  const unreachable = ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
  if (isNoted || !unreachable.includes(cause?.code ?? "")) return;
  isNoted = true;
  say(`Cannot reach Sandkeep at ${daemon.origin} (${cause?.message || cause?.code}): does "sandkeep serve" run there?`);
}

function resolveLocalhost() {
  const { lookup } = dns;
  const isLocal = (/** @type {unknown} */ name) => typeof name === "string" && /\.localhost\.?$/i.test(name);
  const local = (/** @type {string} */ name, /** @type {unknown[]} */ ...rest) =>
    Reflect.apply(lookup, dns, [isLocal(name) ? "localhost" : name, ...rest]);
  // promisify() needs the function's own properties.
  dns.lookup = /** @type {typeof lookup} */ (Object.defineProperties(local, Object.getOwnPropertyDescriptors(lookup)));
}

/**
 * Connects to the daemon for every host below the domain: fetch does not allow a Host header, and no resolver needs to
 * know the domain. It wraps the dispatcher of the caller or of Node.
 * @typedef {{ origin?: string | URL, headers?: string[] | Record<string, string> }} DispatchOptions
 * @typedef {{ dispatch(options: DispatchOptions, handler: unknown): boolean }} Dispatcher
 * @param {URL} daemon
 * @param {string} domain
 * @param {RequestInit & { dispatcher?: unknown } | undefined} init
 * @returns {Dispatcher}
 */
function connector(daemon, domain, init) {
  // The global dispatcher of undici, which is Node's fetch; it exists once any part of undici was used.
  void globalThis.Headers;
  const globals = /** @type {Record<symbol, unknown>} */ (/** @type {unknown} */ (globalThis));
  const next = /** @type {Dispatcher} */ (init?.dispatcher ?? globals[Symbol.for("undici.globalDispatcher.1")]);
  return {
    dispatch(options, handler) {
      // A program that redirects to itself may use either name.
      const { hostname } = new URL(String(options.origin));
      const [, subdomain] = /^([^.]+)\.(.+)$/.exec(hostname) ?? [];
      if (!hostname.endsWith(`.${domain}`) && !hostname.endsWith(".vercel.run")) return next.dispatch(options, handler);
      const headers = withHost(options.headers ?? {}, hostBelow(subdomain, domain, daemon));
      return next.dispatch({ ...options, origin: daemon.origin, headers }, handler);
    },
  };
}

/**
 * @param {string[] | Record<string, string>} headers
 * @param {string} host
 */
function withHost(headers, host) {
  return Array.isArray(headers) ? [...headers, "host", host] : { ...headers, host };
}

/**
 * The new destination of a call, or undefined to leave it alone.
 * @param {URL} url
 * @param {URL} daemon
 * @param {string} domain
 * @returns {URL | undefined}
 */
function destination(url, daemon, domain) {
  const { hostname, pathname } = url;
  const [, sandboxPort, below] = /^(\d{1,5}-i[a-z0-9]+)\.(.+)$/.exec(hostname) ?? [];
  const isOurs = below === domain && url.port === daemon.port && url.protocol !== daemon.protocol;
  if (url.protocol === "https:" && isOurs) {
    return joined(hostBelow(sandboxPort, domain, daemon), pathname, url, daemon);
  }
  if (url.protocol !== "https:" || url.port !== "") return undefined;
  if (hostname === "api.e2b.app") return at(pathname, url, daemon);
  if (below === "e2b.app") return joined(hostBelow(sandboxPort, domain, daemon), pathname, url, daemon);
  if (hostname === "vercel.com" && /^\/(api|\.well-known)(\/|$)/.test(pathname)) return at(pathname, url, daemon);
  if (hostname === "api.vercel.com") return at(`/api${pathname}`, url, daemon);
  if (/^[^.]+\.vercel\.run$/.test(hostname)) {
    return joined(hostBelow(hostname.split(".")[0], domain, daemon), pathname, url, daemon);
  }
  // Before it opens a terminal, the CLI checks the health of the terminal's host: over https and without a port.
  if (pathname === "/health" && sameHost(hostname, daemon.hostname)) return at(pathname, url, daemon);
  return undefined;
}

/**
 * @param {string} pathname
 * @param {URL} url
 * @param {URL} daemon
 */
function at(pathname, url, daemon) {
  return joined(daemon.host, daemon.pathname.replace(/\/$/, "") + pathname, url, daemon);
}

/**
 * Builds the address from its parts and never parses it as a whole: otherwise a path such as //example.com would become
 * a host, which would then receive the request's headers.
 * @param {string} host
 * @param {string} pathname
 * @param {URL} url
 * @param {URL} daemon
 */
function joined(host, pathname, url, daemon) {
  const target = new URL(daemon.origin);
  target.host = host;
  target.pathname = pathname;
  target.search = url.search;
  return target;
}

/**
 * @param {string | undefined} subdomain
 * @param {string} domain
 * @param {URL} daemon
 */
function hostBelow(subdomain, domain, daemon) {
  return `${subdomain}.${domain}${daemon.port === "" ? "" : `:${daemon.port}`}`;
}

/**
 * @param {string} one
 * @param {string} other
 */
function sameHost(one, other) {
  const loopback = ["127.0.0.1", "localhost", "[::1]"];
  return one === other || (loopback.includes(one) && loopback.includes(other));
}

/** @param {string} text */
function parsed(text) {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/**
 * @param {string | URL | Request} input
 * @returns {input is Request}
 */
function isRequest(input) {
  return typeof input === "object" && "url" in input && typeof input.url === "string";
}

/** @param {string} sentence */
function say(sentence) {
  process.stderr.write(`sandkeep/redirect: ${sentence}\n`);
}
