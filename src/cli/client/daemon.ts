/**
 * The daemon as the commands on sandboxes use it: the typed client with the address, the key, the team and the project
 * of the command line. Refusals become sentences, with the name that was probably meant.
 */

import { type Answer, ApiError, SandkeepClient } from "../../client/client.ts";
import { CliError, Refusal } from "../errors.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "./connection.ts";
import { nodeTransport } from "./node-transport.ts";

/** options of every command that asks the daemon */
export const teamOptions = {
  json: { type: "boolean" },
  team: { type: "string" },
  url: { type: "string" },
  "data-dir": { type: "string" },
} as const;

/** options of those that are about the things of a project */
export const daemonOptions = { ...teamOptions, project: { type: "string" } } as const;

/** the lines of these options in a command's usage */
export const daemonUsage = usageWith(
  "  --project <id or name>   the project of the sandboxes (the key's, or your team's first)\n",
);
export const teamOptionsUsage = usageWith("");

function usageWith(project: string): string {
  return `  --json                   print JSON
${project}  --team <id or name>      with an admin key: the team to act for
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set
`;
}

export interface DaemonValues {
  project?: string | undefined;
  team?: string | undefined;
  url?: string | undefined;
  "data-dir"?: string | undefined;
}

/** most names that are read to find the one that was meant */
const mostNames = 1000;

export class Daemon {
  readonly url: string;
  readonly key: string;
  readonly client: SandkeepClient<Answer>;
  /** parameters of requests about a team, or about something that has an id */
  readonly team: { team?: string };
  /** parameters of requests about a project, or about something that has a name */
  readonly scope: { team?: string; project?: string };

  constructor(values: DaemonValues, places: KeyPlaces) {
    const { project, team } = values;
    this.url = daemonUrl(values, places);
    this.key = apiKey(values["data-dir"], places);
    this.team = team === undefined ? {} : { team };
    this.scope = { ...this.team, ...(project !== undefined && { project }) };
    const send = nodeTransport();
    this.client = new SandkeepClient({
      url: this.url,
      key: this.key,
      transport: (address, request) =>
        send(address, request).catch(async (error) => {
          if (request.signal?.aborted) throw error;
          const { unreachable } = await import("./reachability.ts");
          throw unreachable(this.url, error);
        }),
    });
  }

  /** The answer; otherwise throws "Cannot", `what`, and the daemon's sentence. */
  async ask<T>(what: string, answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { message, status, code } = error;
      // The daemon may say itself that it cannot do that.
      const isWhole = message.startsWith(`Cannot ${what.split(" ", 1)} `);
      throw new Refusal(isWhole ? message : `Cannot ${what}: ${message}`, status, code);
    }
  }

  /** As `ask`, about a sandbox: if it does not exist, the error names the one that was probably meant. */
  async askAbout<T>(sandbox: string, what: string, answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "not_found" && /^Sandbox /.test(error.message)))
        return this.ask(what, Promise.reject(error));
      const listed = await this.client
        .call("listSandboxes", { query: { ...this.scope, limit: mostNames } })
        .catch(() => ({ sandboxes: [] }));
      const { didYouMean } = await import("../../base/similar.ts");
      const meant = didYouMean(
        sandbox,
        listed.sandboxes.map(({ name }) => name),
      );
      throw new CliError(`Cannot ${what}: ${error.message}`, meant === "" ? "sandkeep ls lists them" : meant);
    }
  }
}
