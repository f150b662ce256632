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
/** what every address of this page begins with */
export const root = rootOf(place);

export interface Place {
  team: string;
  project: string;
}

export function rootOf(of: Place | undefined): string {
  return of ? `/ui/in/${encodeURIComponent(of.team)}/${encodeURIComponent(of.project)}/` : "/ui/";
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
