/** The team of a request's key, and names as its clients write them: `<team>/<name>:<tag>`. */

import type { Owner, Team } from "../../../core/model/sandbox.ts";
import { Refusal } from "../../kit/refusal.ts";
import type { Dialect } from "../request.ts";

/** the team; refuses a request that names another one */
export async function ownTeam({ core }: Pick<Dialect, "core">, owner: Owner, asked?: string | null): Promise<Team> {
  const team = await core.access.team(owner);
  if (asked == null || asked === team.id) return team;
  throw new Refusal(403, "Cannot use the templates of this team: the key belongs to another one");
}

/** the name without the team before it, which must be the key's own */
export async function ownName({ core }: Pick<Dialect, "core">, owner: Owner, text: string): Promise<string> {
  const [slug = "", name] = text.split("/");
  if (name === undefined) return text;
  const team = await core.access.team(owner);
  if (slug.toLowerCase() === team.slug) return name;
  throw new Refusal(403, `Cannot use the name "${text.slice(0, 128)}": the key belongs to another team`);
}
