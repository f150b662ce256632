/** What people do to a sandbox. An act that the daemon refuses shows the daemon's sentence. */

import { signal } from "@preact/signals";
import { leave, reread } from "../data/live.ts";
import { doing } from "../data/under-way.ts";
import { go, pathOf } from "../router.ts";
import { client, sentence } from "../session.ts";

export interface Notice {
  text: string;
  isProblem: boolean;
}

/** what the last act led to */
export const notice = signal<Notice | undefined>(undefined);
/** how many acts the daemon has not answered yet */
export const pending = signal(0);

/** returns what the daemon answered, or undefined after a refusal, which is shown */
export async function act<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
  pending.value++;
  notice.value = undefined;
  try {
    return await work();
  } catch (error) {
    notice.value = { text: `${what}: ${sentence(error)}`, isProblem: true };
    return undefined;
  } finally {
    pending.value--;
  }
}

export function say(text: string): void {
  notice.value = { text, isProblem: false };
}

/** does something to a sandbox: it shows at once, and a refusal leaves the sandbox as it was */
export async function actOn<T>(
  name: string,
  what: string,
  cannot: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  return doing(name, what, async () => {
    const answer = await act(`Cannot ${cannot} ${name}`, work);
    await reread(name);
    return answer;
  });
}

export async function stop(name: string): Promise<void> {
  await actOn(name, "stopping", "stop", () => client.call("stopSession", { params: { sandbox: name } }));
}

/** keeps its programs in memory, and uses no processor until it is resumed */
export async function pause(name: string): Promise<void> {
  await actOn(name, "pausing", "pause", () => client.call("pauseSession", { params: { sandbox: name } }));
}

export async function resume(name: string): Promise<void> {
  await actOn(name, "resuming", "resume", () => client.call("resumeSandbox", { params: { sandbox: name } }));
}

export async function extend(name: string, session: string, duration: number): Promise<void> {
  await actOn(name, "extending", "extend", () =>
    client.call("extendSession", { params: { session }, body: { duration } }),
  );
}

/** makes a copy, and opens it unless the present page `stays` */
export async function fork(name: string, { stays = false } = {}): Promise<void> {
  const made = await actOn(name, "forking", "fork", () => client.call("forkSandbox", { params: { sandbox: name } }));
  if (!made) return;
  await reread(made.name);
  if (!stays) go(pathOf("sandboxes", made.name));
}

export async function snapshot(name: string, session: string): Promise<void> {
  const work = () => client.call("createSnapshot", { params: { session } });
  if (await actOn(name, "snapshotting", "snapshot", work)) say(`Snapshot of ${name} made`);
}

export function remove(name: string): Promise<boolean> {
  const work = async () => {
    await client.call("deleteSandbox", { params: { sandbox: name }, query: { snapshots: true } });
    return true;
  };
  return doing(name, "deleting", () => leave(name, async () => (await act(`Cannot delete ${name}`, work)) === true));
}

/** copies text; over plain HTTP a browser has only the older way */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  say("Copied");
}
