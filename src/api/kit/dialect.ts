/** What a dialect is: the requests that are its own, and what answers them. And what every dialect stands on. */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Core } from "../../core/core.ts";
import type { Connection } from "./http.ts";
import type { Idempotency } from "./idempotency.ts";

export interface ApiDialect {
  /** which requests are its own, the first that fits counts */
  mounts: Mount[];
  ports?: PortNames;
  /** whether a request to change the protocol, such as to WebSocket, is its own; if so, it is answered */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
}

/** How its clients name ports of sandboxes in headers, and prove that they may reach private ones. */
export interface PortNames {
  /** the label of the port that a request is for, whatever its host is; undefined when its headers name none */
  portOf(headers: IncomingHttpHeaders): string | undefined;
  /** in lower case */
  tokenHeader: string;
  /** whether it is the token of the sandbox with this label */
  isToken(sandbox: string, token: string): boolean;
}

/** A row of the mount table. A request must fit all that is said here. */
export interface Mount {
  path: RegExp;
  /** default all */
  methods?: readonly string[];
  /**
   * host names that this row serves, in lower case and without a port; they may be those of sandboxes' ports. Without
   * one a row serves the daemon's own names
   */
  host?: RegExp;
  /** where the path alone does not say whose it is, as with the same path and different credentials */
  headers?: (headers: Headers) => boolean;
  /** whether pages in browsers may use it with a key */
  forPages?: boolean;
  app: { fetch(request: Request, connection?: Connection): Response | Promise<Response> };
}

/** What every dialect stands on. */
export interface Service {
  core: Core;
  limits: ServiceLimits;
  idempotency: Idempotency;
  /** the address of this daemon as its clients know it, without a slash at its end */
  publicUrl: () => string;
  /** where labels lead to sandboxes, and how one gets there (port-url.ts) */
  domain: () => string;
  /** proves that this daemon made a text: the same text has the same proof, in hexadecimal, and no one else can make it */
  sign: (text: string) => string;
  /** ms since 1970 */
  clock: () => number;
  /** called with errors that are our own fault */
  trouble: (error: unknown) => void;
  /** aborted when streams have to end, because the daemon does */
  ending?: AbortSignal | undefined;
  /** whether the daemon is going away, and its connections with it */
  closing: () => boolean;
  /** for tests only: what the conformance suite of MCP asks for is there too */
  conformanceFixtures: boolean;
}

/** What this host allows; a dialect may allow less. */
export interface ServiceLimits {
  /** most ports of a sandbox that have an address */
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
