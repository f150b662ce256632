/** Looks at something again and again for as long as the daemon runs, without keeping it running. */

export interface RegularLook {
  close(): void;
}

/** every `pause` ms; `trouble` is called with what a look throws, and the next one comes all the same */
export function lookEvery(pause: number, look: () => void, trouble: (error: unknown) => void): RegularLook {
  const timer = setInterval(() => {
    try {
      look();
    } catch (error) {
      trouble(error);
    }
  }, pause);
  timer.unref();
  return { close: () => clearInterval(timer) };
}
