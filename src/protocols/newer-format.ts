/** The error of a reader that meets a format of a newer version of Sandkeep. */

export class NewerFormat extends Error {
  override readonly name = "NewerFormat";

  /** `what` fits after "Cannot read" */
  constructor(what: string, found: number, known: number) {
    super(`Cannot read ${what}: its format is version ${found}, and this version of Sandkeep knows only ${known}`);
  }
}

/** the version in a value's field `v`; 1 if it is missing */
export function versionOf(value: unknown): number {
  const version = typeof value === "object" && value !== null && "v" in value ? value.v : 1;
  return typeof version === "number" ? version : 1;
}

/** throws if a newer version has written the value */
export function checkVersion(what: string, value: unknown, known: number): void {
  const found = versionOf(value);
  if (found > known) throw new NewerFormat(what, found, known);
}
