/** What the daemon says about the visitor on this page: the team, the project and the key, and the others to choose from. */

import { ApiError } from "../../client/client.ts";
import { type Place, place, rootOf } from "../place.ts";
import { client, noStanding, sentence, standing } from "../session.ts";

export async function readStanding(signal: AbortSignal): Promise<void> {
  try {
    const [caller, { teams }, { projects }] = await Promise.all([
      client.call("getCaller", { signal }),
      client.call("listTeams", { signal }),
      client.call("listProjects", { signal }),
    ]);
    noStanding.value = "";
    standing.value = { ...caller, teams, projects };
  } catch (error) {
    if (signal.aborted) return;
    // Without an answer the rest of the page still says what it can.
    if (error instanceof ApiError && place && error.status < 500) noStanding.value = sentence(error);
  }
}

/** the address of a page in another project; `team` is a slug, and without a project it is the team's first */
export async function addressIn(team: string, project: string | undefined, page: string): Promise<string> {
  return rootOf(await placeFor(team, project)) + page;
}

async function placeFor(team: string, project: string | undefined): Promise<Place> {
  if (project !== undefined) return { team, project };
  const { projects } = await client.call("listProjects", { query: { team } });
  return { team, project: projects[0]?.name ?? "default" };
}
