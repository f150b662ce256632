/** Paths inside a sandbox, by their text alone: nothing is looked up. */

/** without empty names, "." and what ".." takes back; nothing leads above the root */
export function absolutePath(base: string, path: string): string {
  const names: string[] = [];
  for (const name of (path.startsWith("/") ? path : `${base}/${path}`).split("/")) {
    if (name === "..") names.pop();
    else if (name !== "" && name !== ".") names.push(name);
  }
  return `/${names.join("/")}`;
}

/** the last name of a path; "" of the root */
export function baseName(path: string): string {
  return path.split("/").findLast((name) => name !== "") ?? "";
}

export function parentPath(path: string): string {
  return absolutePath("/", `${path}/..`);
}
