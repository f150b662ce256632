/** Ids of the machines that builds work in. They belong to no sandbox and have no row. */

const prefix = "build-";

/** `unique` has letters and digits only */
export function buildMachineId(purpose: "step" | "copy" | "start", unique: string): string {
  return `${prefix}${purpose}-${unique}`;
}

export function isBuildMachine(id: string): boolean {
  return id.startsWith(prefix);
}
