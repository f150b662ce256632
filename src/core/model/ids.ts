/** Ids in the shapes that the APIs expect, made from given randomness. */

export interface Ids {
  session(): { id: string; shortId: string };
  command(): string;
  snapshot(): string;
  sandbox(): string;
  drive(): string;
  template(): string;
  /** id of a template's build */
  build(): string;
  secret(): string;
  webhook(): { id: string; secret: string };
  /** id of a message to a webhook */
  delivery(): string;
  team(): string;
  project(): { id: string; uuid: string };
  /** label of a route */
  subdomain(): string;
  /** a name for a sandbox without one */
  name(): string;
  apiKey(): { id: string; secret: string };
  /** id of one run of the daemon */
  run(): string;
}

export type Random = (bytes: number) => Uint8Array;

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const base36 = base62.slice(0, 10) + base62.slice(36);
const hex = base36.slice(0, 16);

export function idsFrom(random: Random): Ids {
  const text = (alphabet: string, length: number) => randomText(random, alphabet, length);
  return {
    session: () => ({ id: `sbx_${text(base62, 28)}`, shortId: `s${text(base36, 19)}` }),
    command: () => `cmd_${text(hex, 28)}`,
    snapshot: () => `snap_${text(base62, 28)}`,
    sandbox: () => `sandbox_${text(base62, 28)}`,
    drive: () => `drv_${text(base62, 28)}`,
    template: () => text(base36, 20),
    build: () => uuid(random),
    secret: () => `sec_${text(base62, 28)}`,
    webhook: () => ({ id: `wh_${text(base62, 28)}`, secret: `whsec_${text(base62, 44)}` }),
    delivery: () => `msg_${text(base62, 28)}`,
    team: () => `team_${text(base62, 24)}`,
    project: () => ({ id: `prj_${text(base62, 28)}`, uuid: uuid(random) }),
    subdomain: () => `sb-${text(base36, 12)}`,
    name: () => `sandbox-${text(base36, 12)}`,
    apiKey: () => ({ id: `key_${text(base62, 20)}`, secret: `sk_${text(base62, 40)}` }),
    run: () => text(base36, 12),
  };
}

/** all characters equally likely: discards bytes beyond the last whole multiple of the alphabet */
function randomText(random: Random, alphabet: string, length: number): string {
  const usable = 256 - (256 % alphabet.length);
  let text = "";
  while (text.length < length) {
    for (const byte of random(length * 2)) {
      if (byte < usable && text.length < length) text += alphabet[byte % alphabet.length];
    }
  }
  return text;
}

function uuid(random: Random): string {
  const bytes = random(16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [8, 12, 16, 20, 32].map((end, i, ends) => digits.slice(ends[i - 1] ?? 0, end)).join("-");
}
