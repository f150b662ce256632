/** The valid reasons for skipping a test. Any other skip fails the run: a test that never runs proves nothing. */

const registries = ["the npm registry", "PyPI", "Debian's archive"] as const;

export type Registry = (typeof registries)[number];

/** features that a kernel has or lacks, and that cannot be installed */
export function kernelLacks(features: string[]): string {
  return `${kernel}${features.join(", ")}`;
}

export function outOfReach(registry: Registry): string {
  return `${registry} is out of reach`;
}

/** of pictures, whose letters and lines each version of a browser may draw a little differently */
export const drawsOtherwise = "this Chromium draws unlike the one that took the stored pictures";

export function excuses(reason: string): boolean {
  return reason.startsWith(kernel) || [...registries.map(outOfReach), drawsOtherwise].includes(reason);
}

const kernel = "the kernel lacks ";
