/** How clients of a dialect name ports of sandboxes, prove that they may reach private ones, and read refusals. */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";

export interface PortAccess {
  /** the label of the port that a request names in its headers, whatever its host is; undefined when it names none */
  portOf(headers: IncomingHttpHeaders): string | undefined;
  /** name of the header that a sandbox's token comes in, in lower case */
  tokenHeader: string;
  /** whether it is the token of the sandbox with this label */
  isToken(sandbox: string, token: string): boolean;
  /** checks a request to a port by its label, and prepares the port; may refuse it, or name headers that stay behind */
  ready?(port: string, request: Pick<IncomingMessage, "url" | "headers">): Promise<Readiness>;
  /** a refusal in the dialect's own form; undefined where the port's label is not one of the dialect's */
  refused?(port: string, refusal: { status: number; code: string; message: string }): RefusalForm | undefined;
}

export interface Readiness {
  refusal?: { status: number; message: string };
  dropped?: readonly string[];
}

export interface RefusalForm {
  status: number;
  /** a text is sent as it is, an object as JSON */
  body: string | object;
}
