/**
 * The code interpreter, which E2B's clients expect on port 49999 of a sandbox. A program inside the sandbox serves it; the
 * daemon starts the program, and relays requests as it does for every port. It starts with the sandbox if that was made
 * for it, and otherwise at the first request.
 *
 * Clients show the sandbox's access token where they run code, but not where they manage contexts. So a request without a
 * token may start the program only while the daemon knows a token that it gave out for the sandbox.
 */

import { isSandkeepError, messageOf } from "../../../core/model/errors.ts";
import type { Owner, Sandbox } from "../../../core/model/sandbox.ts";
import { idOfLabel, labelOf } from "../../../core/model/sandbox-label.ts";
import type { Booted } from "../../../core/sandboxes/sandboxes.ts";
import type { PortReadiness, PortRequest, Service } from "../../kit/dialect.ts";
import type { IssuedTokens } from "../access/issued-tokens.ts";
import { isSame, ownerOfToken, trafficToken } from "../access/tokens.ts";
import { awake } from "../sandboxes/awake.ts";
import { variables } from "../wire.ts";
import { command, program, readyLine } from "./program.ts";

/** the template that clients of the interpreter name */
export const interpreterTemplate = "code-interpreter-v1";

const port = 49_999;
const label = new RegExp(`^${port}-(i[0-9a-z]+)$`);
const tokenHeader = "x-access-token";
/** the addresses that clients use without a token */
const open = /^\/(health|contexts(\/[\w-]+(\/restart)?)?)\/?(\?|$)/;
/** longest wait until the program accepts connections, in ms */
const patience = 30_000;
/** most characters of what a program says when it cannot start */
const longestComplaint = 300;

type Needs = Pick<Service, "core" | "sign" | "logError"> & { issued: IssuedTokens };

export class Interpreters {
  readonly #service: Needs;
  /** starts that are under way or done, by session; each gives the reason if it failed */
  readonly #started = new Map<string, Promise<string | undefined>>();

  constructor(service: Needs) {
    this.#service = service;
  }

  /** starts the program in a new sandbox; the first request waits for it, and gets its error */
  ahead(owner: Owner, booted: Booted): void {
    void this.#start(owner, booted);
  }

  /** checks the token of a request to the interpreter, and waits until the program accepts connections */
  async ready(name: string, { url = "/", headers }: PortRequest): Promise<PortReadiness> {
    const [, sandbox] = label.exec(name) ?? [];
    if (sandbox === undefined) return {};
    try {
      const token = headers[tokenHeader];
      const owner = await this.#owner(sandbox, typeof token === "string" ? token : undefined, open.test(url));
      const isReachable = owner === undefined || this.#mayReach(await this.#sandbox(owner, sandbox), headers);
      const refusal = owner && isReachable ? await this.#awake(owner, sandbox) : await this.#running(sandbox);
      return { dropped: [tokenHeader], ...(refusal && { refusal }) };
    } catch (error) {
      const refusal = refusalOf(error, this.#service.logError);
      // For a sandbox that does not run, answer that instead of judging the token.
      return { refusal: (refusal.status === 401 && (await this.#running(sandbox))) || refusal };
    }
  }

  /** undefined where no token is needed and none is known */
  async #owner(sandbox: string, token: string | undefined, isOpen: boolean): Promise<Owner | undefined> {
    if (token !== undefined || !isOpen) return ownerOfToken(this.#service, sandbox, token ?? "");
    const [known] = this.#service.issued.of(sandbox).slice(-1);
    return known === undefined ? undefined : ownerOfToken(this.#service, sandbox, known).catch(() => undefined);
  }

  #sandbox(owner: Owner, name: string): Promise<Sandbox> {
    return this.#service.core.sandboxes.byId(owner, idOfLabel(name) ?? "");
  }

  /** whether traffic is public, or the request has the token for it; the way in refuses the others */
  #mayReach(sandbox: Sandbox, headers: PortRequest["headers"]): boolean {
    if (!sandbox.ingress?.isPrivate) return true;
    const given = headers["e2b-traffic-access-token"];
    return typeof given === "string" && isSame(given, trafficToken(this.#service, labelOf(sandbox.id)));
  }

  async #running(name: string): Promise<PortReadiness["refusal"]> {
    const isThere = await this.#service.core.routes.isRunning(idOfLabel(name) ?? "");
    return isThere ? undefined : notRunning;
  }

  async #awake(owner: Owner, name: string): Promise<PortReadiness["refusal"]> {
    const booted = await awake(this.#service, owner, name);
    if (!booted) return notRunning;
    const problem = await this.#start(owner, booted);
    return problem === undefined ? undefined : { status: 400, message: `Cannot run code in the sandbox: ${problem}` };
  }

  /** once for each session, until the program ends */
  #start(owner: Owner, booted: Booted): Promise<string | undefined> {
    const { id } = booted.session;
    const before = this.#started.get(id);
    if (before) return before;
    const forget = () => void this.#started.delete(id);
    const started = this.#run(owner, booted, forget).catch((error: unknown) => {
      forget();
      if (!isSandkeepError(error)) this.#service.logError(error);
      return messageOf(error);
    });
    this.#started.set(id, started);
    return started;
  }

  async #run(owner: Owner, { sandbox, session: { id } }: Booted, ended: () => void) {
    const { core } = this.#service;
    // It may run already: started by an earlier daemon, or before a pause.
    if (await this.#listens(labelOf(sandbox.id))) return void ended();
    const { id: commandId } = await core.commands.run(owner, id, {
      ...command,
      facts: variables(sandbox),
      stdin: true,
    });
    void core.commands.wait(owner, id, commandId).then(ended, ended);
    await core.commands.append(owner, id, commandId, await program(), patience);
    await core.commands.closeStdin(owner, id, commandId).catch(() => undefined);
    const said = { stdout: "", stderr: "", pty: "" };
    const signal = AbortSignal.timeout(patience);
    for await (const { stream, data } of await core.commands.output(owner, id, commandId, { signal })) {
      said[stream] = (said[stream] + Buffer.from(data).toString()).slice(-longestComplaint);
      if (said.stdout.endsWith(readyLine)) return undefined;
    }
    ended();
    return said.stderr.trim().split("\n").at(-1) || "the program of the interpreter did not start";
  }

  async #listens(name: string): Promise<boolean> {
    try {
      const { open: connect } = await this.#service.core.routes.connect(`${port}-${name}`);
      (await connect()).destroy();
      return true;
    } catch (error) {
      if (isSandkeepError(error)) return false;
      throw error;
    }
  }
}

const notRunning = { status: 502, message: "The sandbox was not found" };

function refusalOf(error: unknown, logError: (error: unknown) => void): NonNullable<PortReadiness["refusal"]> {
  if (isSandkeepError(error, "unauthenticated")) return { status: 401, message: error.message };
  if (isSandkeepError(error, "not-found") || isSandkeepError(error, "forbidden")) return notRunning;
  if (isSandkeepError(error, "gone") || isSandkeepError(error, "conflict")) return notRunning;
  logError(error);
  return { status: 500, message: "An internal error occurred" };
}
