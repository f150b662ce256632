/** How far the pull is that `sandkeep run <image>` waits for, from the events of the project. */

import type { Daemon } from "../client/daemon.ts";
import type { CommandContext } from "../command.ts";
import { progressOf } from "../print/meter.ts";
import { redrawn } from "../print/output.ts";
import { plain } from "../print/plain.ts";

type Shown = Pick<CommandContext, "errors" | "warn" | "write" | "now">;

/** ms between two lines where there is no terminal */
const pause = 5000;
/** ms within which the last event of a pull is of one that goes on */
const recent = 60_000;

/** shows a pull of the image, if there is one, until the signal aborts: a bar on a terminal, elsewhere lines */
export async function showPull(
  daemon: Pick<Daemon, "client" | "scope">,
  image: string,
  { errors, warn, write, now }: Shown,
  signal: AbortSignal,
): Promise<void> {
  const query = { ...daemon.scope, topics: "image" };
  const name = plain(image);
  let isDrawn = false;
  let next = 0;
  const show = async (event: Event) => {
    const { type, image: its, received, total } = event;
    if (type !== "image.pulling" || its !== image || typeof received !== "number" || typeof total !== "number") return;
    if (errors.isTTY) {
      isDrawn = true;
      await write(errors, redrawn(`Pulling ${name} ${progressOf(received, total)}`, errors.columns));
    } else if (now() >= next) {
      next = now() + pause;
      warn(`Pulling ${name}: ${progressOf(received, total, { isBar: false })}`);
    }
  };
  try {
    const { events, next: after } = await daemon.client.call("readEvents", { query, signal });
    const last = events.findLast((event) => event.image === image);
    if (last && now() - last.at < recent) await show(last);
    for await (const event of daemon.client.events({ ...query, after }, signal)) {
      if (signal.aborted) return;
      await show(event);
    }
  } finally {
    if (isDrawn) await write(errors, redrawn(""));
  }
}

interface Event {
  type: string;
  at: number;
  [field: string]: unknown;
}
