/** How many things a page of the rail has, counted up to a limit. */

import { useEffect, useState } from "preact/hooks";
import { examine, wrong } from "../data/diagnosis.ts";
import { onChange } from "../data/live.ts";
import { oneAtATime } from "../data/one-at-a-time.ts";
import { html } from "../html.ts";
import { client } from "../session.ts";

/** more are not counted, since each count reads them */
const most = 100;
/** ms between two counts */
const pause = 5000;

interface Counted {
  /** what the types of events begin with that change the number */
  topic: string;
  /** at most one more than `most` */
  count: (signal: AbortSignal) => Promise<number>;
}

const all: Record<string, Counted> = {
  snapshots: {
    topic: "snapshot.",
    async count(signal) {
      const { snapshots, next } = await client.call("listSnapshots", { query: { limit: most }, signal });
      return snapshots.length + (next === null ? 0 : 1);
    },
  },
  images: { topic: "image.", count: async (signal) => (await client.call("listImages", { signal })).images.length },
  drives: {
    topic: "drive.",
    async count(signal) {
      const { drives, next } = await client.call("listDrives", { query: { limit: most }, signal });
      return drives.length + (next === null ? 0 : 1);
    },
  },
};

export function RailCount({ path }: { path: string }) {
  const counted = all[path];
  if (counted) return html`<${Amount} of=${counted} />`;
  return path === "doctor" ? html`<${Wrong} />` : null;
}

function Amount({ of: { topic, count } }: { of: Counted }) {
  const [amount, setAmount] = useState<number | undefined>(undefined);
  useEffect(() => {
    const left = new AbortController();
    const work = oneAtATime(async () => {
      const found = await count(left.signal);
      if (!left.signal.aborted) setAmount(found);
    }, pause);
    work.ask();
    const stop = onChange(({ type }) => type.startsWith(topic) && work.ask());
    return () => {
      stop();
      work.stop();
      left.abort();
    };
  }, []);
  if (amount === undefined) return null;
  return html`<em>${amount > most ? `${most}+` : amount}</em>`;
}

function Wrong() {
  useEffect(() => void examine(), []);
  const found = wrong.value ?? [];
  if (found.length === 0) return null;
  const kind = found.some(({ state }) => state === "missing") ? "fail" : "pause";
  return html`<em class=${kind}>${found.length}<span class="unseen">${found.length === 1 ? " finding needs" : " findings need"} a look</span></em>`;
}
