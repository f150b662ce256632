/** Runs a line of text as the commands of a login shell. */

/** the program and arguments; bash if the image has it */
export function shellLine(line: string): string[] {
  const choose = 'if [ -x /bin/bash ]; then exec /bin/bash -l -c "$1"; fi; exec /bin/sh -l -c "$1"';
  return ["/bin/sh", "-c", choose, "sh", line];
}
