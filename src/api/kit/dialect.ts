/** The interface of a dialect: which requests it serves and how. Also the services and limits that a dialect gets. */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Core } from "../../core/core.ts";
import type { SignOuts } from "./browser/sign-outs.ts";
import type { Connection } from "./http.ts";
import type { Idempotency } from "./idempotency.ts";

export interface ApiDialect {
  /** its name in the audit */
  wire: string;
  /** which requests the dialect serves; the first row that matches wins */
  mounts: Mount[];
  ports?: PortNames;
  /** answers a protocol upgrade, such as to WebSocket, and returns true if the request belongs to this dialect */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** how programs use a sandbox over this dialect; the dashboard shows it to people who want to copy it */
  examples?(at: ExamplePlace): Example[];
}

export interface ExamplePlace {
  /** the address of the daemon */
  url: string;
  /** the sandbox to use; without one, an example makes a new one */
  sandbox?: { name: string; id: string; sessionId: string };
}

export interface Example {
  /** the client's name */
  title: string;
  /** lines for a shell or a file */
  text: string;
}

/** How a dialect's clients name ports of sandboxes in headers, and prove that they may reach private ones. */
export interface PortNames {
  /** the label of the port that a request's headers name, whatever its host; undefined when they name no port */
  portOf(headers: IncomingHttpHeaders): string | undefined;
  /** in lower case */
  tokenHeader: string;
  /** whether `token` is the token of the sandbox with this label */
  isToken(sandbox: string, token: string): boolean;
  /** checks a request to a port by its label, and prepares the port, such as by starting the program that listens there */
  ready?(port: string, request: PortRequest): Promise<PortReadiness>;
  /**
   * what programs get when a port by its label cannot be reached, in the dialect's own form; undefined where the label is
   * not one of the dialect's
   */
  refused?(port: string, refusal: PortRefusal): { status: number; body: string | object } | undefined;
}

/** Why a port is not reached, in our own words. */
export interface PortRefusal {
  status: number;
  /** one of the codes in the header `X-Sandkeep-Error` */
  code: string;
  message: string;
}

export interface PortRequest {
  /** path and query, as the program in the sandbox gets them */
  url: string | undefined;
  headers: IncomingHttpHeaders;
}

export interface PortReadiness {
  /** why the request does not reach the port */
  refusal?: { status: number; message: string };
  /** names of headers that the program does not get, in lower case */
  dropped?: readonly string[];
}

/** A row of the mount table. A request must match every field that is set. */
export interface Mount {
  path: RegExp;
  /** default all */
  methods?: readonly string[];
  /**
   * host names that this row serves, in lower case and without a port; they may be names of sandboxes' ports. A row
   * without `host` serves the daemon's own names
   */
  host?: RegExp;
  /** for paths that several dialects share and only headers, such as credentials, tell apart */
  headers?: (headers: Headers) => boolean;
  /** whether pages in browsers may use it with a key */
  forPages?: boolean;
  app: { fetch(request: Request, connection?: Connection): Response | Promise<Response> };
}

/** What the daemon provides to every dialect. */
export interface Service {
  core: Core;
  limits: ServiceLimits;
  idempotency: Idempotency;
  /** the address of this daemon as its clients know it, without a slash at its end */
  publicUrl: () => string;
  /** the URL below whose host labels name sandboxes' ports (port-url.ts) */
  domain: () => string;
  /** a signature of the text by this daemon, in hexadecimal; the same text always has the same signature */
  sign: (text: string) => string;
  /** browser sessions that have ended; by default those of this process */
  signOuts?: SignOuts | undefined;
  /** ms since 1970 */
  clock: () => number;
  /** called with errors that are our own fault */
  logError: (error: unknown) => void;
  /** called with the name of the dialect that answers the current request */
  speaks?: ((wire: string) => void) | undefined;
  /** aborted when streams have to end because the daemon is stopping */
  ending?: AbortSignal | undefined;
  /** whether the daemon is stopping and will close its connections */
  closing: () => boolean;
  /** for tests only: also serve the fixtures that MCP's conformance suite needs */
  conformanceFixtures: boolean;
}

/** What this host allows; a dialect may allow less. */
export interface ServiceLimits {
  /** most ports of a sandbox that may have an address */
  ports: number;
  vcpus: number;
  /** longest a session may run, in ms */
  timeout: number;
  /** bytes of a sandbox's own files */
  disk: number;
  /** bytes of a drive */
  driveSize: number;
  regions: readonly string[];
  defaultRegion: string;
  /** bytes of a JSON body */
  body: number;
  /** longest silence on a stream, in ms */
  patience: number;
}
