/**
 * The team and project that this page is about. Its address begins with them, or else they are those of the key:
 *
 *   /ui/sandboxes                    of the key
 *   /ui/in/ml/default/sandboxes      of the project "default" of the team "ml"
 *
 * A page is about one project for as long as it is open: an address of another one loads the page anew.
 */

const [, , begin, ...named] = location.pathname.split("/");

/** undefined for those of the key */
export const place = begin === "in" ? placeOf(named) : undefined;
/** what every address of this page begins with, as it is written there */
export const root = place ? `/ui/in/${named.slice(0, 2).join("/")}/` : "/ui/";

export interface Place {
  team: string;
  project: string;
}

/** what addresses of pages about another project begin with */
export function rootOf({ team, project }: Place): string {
  return `/ui/in/${encodeURIComponent(team)}/${encodeURIComponent(project)}/`;
}

/** whether a path of ours is about the same project as this page */
export function isHere(path: string): boolean {
  return place ? path.startsWith(root) : path.startsWith("/ui/") && !path.startsWith("/ui/in/");
}

function placeOf([team = "", project = ""]: string[]): Place | undefined {
  try {
    return team === "" || project === ""
      ? undefined
      : { team: decodeURIComponent(team), project: decodeURIComponent(project) };
  } catch {
    return undefined;
  }
}
