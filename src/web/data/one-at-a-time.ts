/** Work that is asked for often and done one at a time: however many ask while it is done, it is done once more. */

/** ms between the end of the work and its next beginning */
const rest = 150;

export interface Asked {
  /** does the work now, or once more after the present one */
  ask(): void;
  stop(): void;
}

export function oneAtATime(work: () => Promise<void>, pause = rest): Asked {
  let state: "idle" | "working" | "again" | "stopped" = "idle";
  const ask = () => {
    if (state === "working") state = "again";
    if (state !== "idle") return;
    state = "working";
    void work()
      .catch(() => undefined)
      .then(() => setTimeout(rested, pause));
  };
  const rested = () => {
    if (state === "stopped") return;
    const isAsked = state === "again";
    state = "idle";
    if (isAsked) ask();
  };
  return {
    ask,
    stop() {
      state = "stopped";
    },
  };
}
