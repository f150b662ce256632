/**
 * Public URLs into sandboxes: a request to <subdomain>.<domain> goes to the port of the sandbox that has this route,
 * over a connection of its own, and the answer comes back, both as they stream. Any protocol that starts as an HTTP
 * upgrade (WebSocket …) passes too. Client and sandbox are both hostile: neither may hold what belongs to others.
 */

import { type ClientRequest, type IncomingMessage, type ServerResponse, request as send } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream";
import { headOf, offersHttp2, pairs } from "../base/http-headers.ts";
import { limitInformational } from "../base/informational-answers.ts";
import { confined, type PortPath, portPath } from "./by-path.ts";
import { Connections, type ConnectionsOptions } from "./connections.ts";
import { hasBody, type RawHeaders, requestHeaders, responseHeaders, upgradeAnswer } from "./headers.ts";
import { hostName, isBelow, subdomainOf } from "./host.ts";
import type { Readiness } from "./port-access.ts";
import {
  inForm,
  isOurFault,
  printRefusal,
  type Refusal,
  type RefusalKind,
  refusalBy,
  refusalFor,
  refusalOf,
} from "./refusal.ts";

export interface IngressOptions extends ConnectionsOptions {
  /** what this host is below, or what it should be; lowercase */
  domain: (host: string) => string;
  /** hosts below the domain that are the daemon's own; default none */
  ownHosts?: () => string[];
  /** how long a client may pause in the middle of its request, in ms; default 60 s */
  pause?: number;
  /** called with errors that neither the client nor the sandbox has caused */
  logError?: (error: unknown) => void;
}

export interface Ingress {
  /** whether a request is the ingress's, by its Host header or its path */
  matches(request: Pick<IncomingMessage, "headers" | "url">): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /**
   * For the server's `shouldUpgradeCallback`: clients that merely offer HTTP/2 (h2c) with an ordinary request get an
   * ordinary answer.
   */
  shouldUpgrade(request: IncomingMessage): boolean;
}

export function createIngress(options: IngressOptions): Ingress {
  const { ownHosts = () => [], pause = 60_000, logError = () => undefined } = options;
  const connections = new Connections(options);

  function destination({ headers, url }: IncomingMessage): Destination {
    const host = hostName(headers.host);
    const domain = options.domain(host);
    const named = options.ports?.portOf(headers);
    const path = named !== undefined || isBelow(host, domain) ? undefined : portPath(url);
    const subdomain = named ?? path?.subdomain ?? subdomainOf(host, domain);
    return { subdomain, domain, path, form: (refusal) => inForm(options.ports, subdomain, refusal) };
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    // Over HTTP/2 many requests share the socket.
    if (request.httpVersionMajor < 2) keepAlive(request.socket);
    const { subdomain, ...place } = destination(request);
    try {
      const { refusal, dropped } = await ready(subdomain, request, place.path);
      if (refusal) return refuse(request, response, place.form(refusalBy(refusal)));
      const { way, host } = await connections.open(subdomain, request, gone.signal);
      if (gone.signal.aborted) return void way.destroy();
      forward({ request, response, way, headers: headersFor(request, host, { dropped }), ...place, pause });
    } catch (error) {
      if (isOurFault(error)) logError(error);
      refuse(request, response, place.form(refusalOf(error)));
    }
  }

  async function ready(subdomain: string | undefined, request: IncomingMessage, path: PortPath | undefined) {
    const { headers, url } = request;
    const asked = subdomain && options.ports?.ready?.(subdomain, { headers, url: path?.url ?? url });
    const readiness: Readiness = (await asked) || {};
    return readiness;
  }

  /** a token is for the way in, and none of the program's business */
  function headersFor(
    request: IncomingMessage,
    host: string | undefined,
    { upgrade = false, dropped = [] }: { upgrade?: boolean; dropped?: readonly string[] | undefined } = {},
  ): RawHeaders {
    const { tokenHeader } = options.ports ?? {};
    const hidden = [...dropped, ...(tokenHeader === undefined ? [] : [tokenHeader])];
    return requestHeaders(request, { upgrade, ...(host !== undefined && { host }), dropped: hidden });
  }

  async function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const gone = new AbortController();
    socket.on("error", () => socket.destroy());
    socket.once("close", () => gone.abort());
    const { subdomain, ...place } = destination(request);
    try {
      // The body would come over the bare socket, unparsed.
      if (hasBody(request)) return refuseOn(socket, request, place.form(refusalFor("upgrade-with-body")));
      const { refusal, dropped } = await ready(subdomain, request, place.path);
      if (refusal) return refuseOn(socket, request, place.form(refusalBy(refusal)));
      const { way, host } = await connections.open(subdomain, request, gone.signal);
      if (gone.signal.aborted) return void way.destroy();
      const headers = headersFor(request, host, { upgrade: true, dropped });
      forwardUpgrade({ request, socket, head, way, headers, ...place });
    } catch (error) {
      if (isOurFault(error)) logError(error);
      refuseOn(socket, request, place.form(refusalOf(error)));
    }
  }

  return {
    matches({ headers, url }) {
      if (options.ports?.portOf(headers) !== undefined) return true;
      const host = hostName(headers.host);
      if (isBelow(host, options.domain(host)) && !ownHosts().includes(host)) return true;
      return portPath(url) !== undefined;
    },
    handle: (request, response) => void handle(request, response),
    upgrade: (request, socket, head) => void upgrade(request, socket, head),
    shouldUpgrade: ({ headers }) => headers.upgrade !== undefined && !offersHttp2(headers.upgrade),
  };
}

interface Destination {
  subdomain: string | undefined;
  domain: string;
  /** where it was named by its path */
  path: PortPath | undefined;
  /** a refusal as the clients that use this name read it */
  form: (refusal: Refusal) => Refusal;
}

interface Exchange extends Omit<Destination, "subdomain"> {
  request: IncomingMessage;
  response: ServerResponse;
  /** the connection to the program in the sandbox */
  way: Duplex;
  headers: RawHeaders;
  pause: number;
}

/**
 * The status of an upgrade. Node takes it for an ordinary answer if no header names the protocol. A proxy in front of the
 * daemon may not, and would connect its client to the daemon past all that it checks.
 */
const switching = 101;

function forward({ request, response, way, headers: sent, domain, path, form, pause }: Exchange): void {
  response.once("close", () => way.destroy());
  // The current user of the connection handles its errors; later ones do not matter.
  way.on("error", () => way.destroy());
  const onward = requestOver(way, request, sent, path);
  onward.once("response", (answer) => {
    if (answer.statusCode === switching) return giveUp("bad-answer");
    try {
      const headers = responseHeaders(answer, domain);
      const own = path ? confined(headers, path.prefix) : headers;
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? "", own);
      // Send the headers at once: an event stream may send nothing more for a long time.
      response.flushHeaders();
    } catch {
      return giveUp("bad-answer");
    }
    answer.once("end", () => addTrailers(response, answer));
    // A body that was cut short must not look whole, so the client's connection is cut as well.
    pipeline(answer, response, () => undefined);
  });
  // An unexpected upgrade: the client did not ask for another protocol.
  onward.once("upgrade", () => giveUp("bad-answer"));
  // A program may answer without reading the request to its end: then the answer is what counts.
  onward.on("error", () => (response.headersSent ? drain() : giveUp("bad-answer")));

  request.pipe(onward);
  watchPauses(request, onward, pause, () => {
    response.shouldKeepAlive = false;
    giveUp("slow-client");
  });

  function giveUp(kind: RefusalKind): void {
    way.destroy();
    drain();
    refuse(request, response, form(refusalFor(kind)));
  }

  /**
   * Reads and discards the rest of the request: a client that writes first and reads later must still see the response.
   */
  function drain(): void {
    request.unpipe(onward);
    request.resume();
  }
}

/** HTTP/2 may refuse what HTTP/1.1 has let through: such an answer is cut off. */
function addTrailers(response: ServerResponse, { rawTrailers }: IncomingMessage): void {
  try {
    response.addTrailers(pairs(rawTrailers));
  } catch {
    response.destroy();
  }
}

/** Notices a client that stops in the middle of its request, unless the sandbox is the one that does not read. */
function watchPauses(request: IncomingMessage, onward: ClientRequest, pause: number, tell: () => void): void {
  if (!hasBody(request)) return;
  const timer = setTimeout(() => {
    if (onward.writableNeedDrain && !onward.destroyed) timer.refresh();
    else tell();
  }, pause);
  const stop = () => clearTimeout(timer);
  request.on("data", () => timer.refresh());
  request.once("end", stop);
  request.once("close", stop);
}

interface UpgradeExchange extends Omit<Destination, "subdomain"> {
  request: IncomingMessage;
  socket: Duplex;
  /** what the client sent after its headers */
  head: Buffer;
  way: Duplex;
  headers: RawHeaders;
}

/** passes everything from one side to the other; closes the other side when the first has ended or is gone */
function relay(from: Duplex, to: Duplex): void {
  // Not pipeline(): two of them hang a dozen listeners on each connection, and Node warns of a leak.
  from.pipe(to);
  from.on("error", () => from.destroy());
  from.once("close", () => to.destroy());
  to.once("finish", () => to.destroy());
}

function forwardUpgrade({ request, socket, head, way, headers: sent, domain, path, form }: UpgradeExchange): void {
  socket.once("close", () => way.destroy());
  way.on("error", () => way.destroy());
  const onward = requestOver(way, request, sent, path);
  let answered = false;
  onward.once("upgrade", (answer, upstream, firstBytes) => {
    answered = true;
    const own = upgradeAnswer(answer, domain);
    socket.write(headOf(101, answer.statusMessage ?? "", pairs(path ? confined(own, path.prefix) : own)));
    if (firstBytes.length > 0) socket.write(firstBytes);
    if (head.length > 0) upstream.write(head);
    keepAlive(socket);
    relay(upstream, socket);
    relay(socket, upstream);
  });
  onward.once("response", (answer) => {
    answered = true;
    if (answer.statusCode === switching) {
      way.destroy();
      return refuseOn(socket, request, form(refusalFor("bad-answer")));
    }
    // The connection ends with this response: no parser reads the bytes after this request.
    const own = responseHeaders(answer, domain);
    const headers = [...(path ? confined(own, path.prefix) : own), "Connection", "close"];
    socket.write(headOf(answer.statusCode ?? 502, answer.statusMessage ?? "", pairs(headers)));
    pipeline(answer, socket, () => socket.destroy());
  });
  onward.on("error", () => (answered ? socket.destroy() : refuseOn(socket, request, form(refusalFor("bad-answer")))));
  onward.end();
}

/** The client's request again, to be sent over a connection into a sandbox. */
function requestOver(
  way: Duplex,
  { method, url }: IncomingMessage,
  headers: RawHeaders,
  path: PortPath | undefined,
): ClientRequest {
  const onward = send({ method, path: path?.url ?? url, headers, createConnection: () => way, setHost: false });
  limitInformational(onward);
  return onward;
}

/** Notices when the peer of an idle WebSocket or event stream has vanished. */
function keepAlive(socket: Duplex): void {
  if (!(socket instanceof Socket)) return;
  socket.setTimeout(0);
  socket.setNoDelay(true);
  socket.setKeepAlive(true, 60_000);
}

function refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const { headers, body } = printRefusal(refusal, request);
  response.writeHead(refusal.status, headers).end(body);
}

function refuseOn(socket: Duplex, request: IncomingMessage, refusal: Refusal): void {
  if (socket.destroyed) return;
  const { headers, body } = printRefusal(refusal, request);
  const head = headOf(refusal.status, "", pairs([...headers, "Connection", "close"]));
  socket.end(Buffer.concat([head, Buffer.from(body)]), () => socket.destroy());
}
