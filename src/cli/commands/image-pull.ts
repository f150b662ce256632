/** `sandkeep image pull` on a daemon: it pulls, and this shows how far it is. */

import { counted } from "../../base/counted.ts";
import { sizeInWords } from "../../base/size-in-words.ts";
import { ApiError } from "../../client/client.ts";
import type { Line } from "../../client/types.ts";
import { streamed } from "../client/broken-stream.ts";
import type { Daemon } from "../client/daemon.ts";
import type { CommandContext } from "../command.ts";
import { CliError } from "../errors.ts";
import { shownJson } from "../print/images.ts";
import { redrawn } from "../print/output.ts";
import { PullMeter, type PullScreen } from "../print/pull-meter.ts";

export interface PullValues {
  json?: boolean | undefined;
  name?: string | undefined;
  "no-node"?: boolean | undefined;
  team?: string | undefined;
}

type Pulled = Extract<Line<"pullImage">, { type: "pulled" }>;

export async function pullOn(
  daemon: Daemon,
  reference: string,
  values: PullValues,
  context: CommandContext,
): Promise<void> {
  const { name, "no-node": noNode, team, json } = values;
  const meter = new PullMeter(screenOf(context));
  const lines = daemon.client.lines("pullImage", {
    query: daemon.team,
    // A team that is named has the image for itself, as on the daemon's own host.
    body: { reference, name, ...(noNode && { noNode }), ...(team !== undefined && { owner: "team" as const }) },
  });
  let pulled: Pulled | undefined;
  try {
    for await (const line of streamed(daemon, `pull image "${reference}"`, inItsWords(lines))) {
      if (line.type === "asking") meter.say(`asking for ${line.reference}`);
      if (line.type === "pulling") meter.received(line.received, line.total);
      if (line.type === "pulled") pulled = line;
    }
  } finally {
    meter.close();
  }
  if (!pulled)
    throw new CliError(`Cannot pull image "${reference}": the daemon ended the pull before the image was there`);
  const { image, isNew } = pulled;
  context.print(json ? shownJson({ ...image, isNew }) : `${described(image)}${isNew ? "" : "  (it was here already)"}`);
}

/** as the same command describes an image on this host */
function described({ name, own, layers, size: { total, shared }, createdAt }: Pulled["image"]): string {
  const common = shared > 0 ? ` (${sizeInWords(shared)} shared)` : "";
  const owner = own ? " (own)" : "";
  return `${name}${owner}  ${counted(layers, "layer")}  ${sizeInWords(total)}${common}  ${new Date(createdAt).toISOString()}`;
}

/** what went wrong in the pull is said as the daemon says it */
async function* inItsWords<T>(lines: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* lines;
  } catch (error) {
    throw error instanceof ApiError && error.status === 0 ? new CliError(error.message) : error;
  }
}

function screenOf({ errors, write }: CommandContext): PullScreen {
  return {
    progress: (line) => void write(errors, `${line}\n`),
    ...(errors.isTTY && { redraw: (line: string) => void write(errors, redrawn(line, errors.columns)) }),
  };
}
