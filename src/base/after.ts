/** Waits without keeping the program running: for bounds on other waits. */

export function after(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined).unref());
}
