/** What commands are to the page. */

/** whether it is a shell of the tab "Terminal" */
export function isShell({ command, args }: { command: string; args: readonly string[] }): boolean {
  return command === "bash" && args.length === 1 && args[0] === "-i";
}
