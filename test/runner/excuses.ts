/** The reasons for which a test may be skipped. Any other skip fails the run: a test that never runs holds nothing. */

const registries = ["the npm registry", "PyPI"] as const;

export type Registry = (typeof registries)[number];

/** features that a kernel has or has not, and that nothing can install */
export function kernelLacks(features: string[]): string {
  return `${kernel}${features.join(", ")}`;
}

export function outOfReach(registry: Registry): string {
  return `${registry} is out of reach`;
}

export function excuses(reason: string): boolean {
  return reason.startsWith(kernel) || registries.map(outOfReach).includes(reason);
}

const kernel = "the kernel lacks ";
