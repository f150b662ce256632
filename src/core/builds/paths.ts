/** Paths inside a sandbox, handled as text only, without a lookup. */

/** removes empty names, "." and ".."; never leads above the root */
export function absolutePath(base: string, path: string): string {
  const names: string[] = [];
  for (const name of (path.startsWith("/") ? path : `${base}/${path}`).split("/")) {
    if (name === "..") names.pop();
    else if (name !== "" && name !== ".") names.push(name);
  }
  return `/${names.join("/")}`;
}

/** the last name of a path; "" for the root */
export function baseName(path: string): string {
  return path.split("/").findLast((name) => name !== "") ?? "";
}

export function parentPath(path: string): string {
  return absolutePath("/", `${path}/..`);
}
