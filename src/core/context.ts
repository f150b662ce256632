/** What every service of the core needs: the store, the runtime, the clock, ids and the host's limits. */

import type { Events } from "./events/events.ts";
import type { Origin } from "./model/audit.ts";
import type { Diagnosis } from "./model/diagnosis.ts";
import type { Ids } from "./model/ids.ts";
import type { Session } from "./model/sandbox.ts";
import type { AuthoritySpec, ForwardIdentity } from "./network/network-policy.ts";
import type { LineFiles } from "./ports/line-files.ts";
import type { RecoveryFiles } from "./ports/recovery-files.ts";
import type { Runtime } from "./ports/runtime.ts";
import type { Store } from "./ports/store.ts";
import type { WebhookSender } from "./ports/webhooks.ts";

export interface Context {
  store: Store;
  runtime: Runtime;
  files: RecoveryFiles;
  /** where events and samples of the use of sessions are kept over a restart; by default nowhere */
  eventFiles?: LineFiles;
  sampleFiles?: LineFiles;
  /** id of this boot of the host */
  bootId?: string;
  ids: Ids;
  /** the stream of changes that callers follow */
  events: Events;
  now: () => number;
  /** a monotonic clock, in ms since any moment; default `now` */
  steady?: () => number;
  /** `now`, once the ends of sessions have been moved after a jump of the wall clock; see clock.ts */
  settledNow?: () => Promise<number>;
  limits: CoreLimits;
  /** image of a sandbox whose caller names none */
  defaultImage: string;
  /** the operator's aliases: an image by each pattern, where `*` stands for any text */
  imageAliases?: Record<string, string>;
  /** when to pull an image that a caller names from its registry; default never */
  pullPolicy?: PullPolicy;
  seal: Seal;
  /** without one, webhooks are refused */
  webhookSender?: WebhookSender;
  /** the secrets that a session's network rules need */
  networkSecrets?: NetworkSecrets;
  /** the host's own root certificates, which images may lack */
  hostRoots?: HostRoots;
  /** variables that every command gets unless its caller overrides them */
  sandboxEnv?: Record<string, string>;
  /** prints a sentence, once each, where callers get something other than they may expect */
  notice: (sentence: string) => void;
  /** called with errors of background work, and with the things that they are about */
  logError: (error: unknown, about?: About) => void;
  /** adds to the log what the current call is about */
  about?: (about: About) => void;
  /** where the current call came from, for the audit */
  origin?: () => Origin;
  /** examines the host; changes nothing */
  diagnose?: () => Promise<Diagnosis>;
  /** called with each secret that passes through in the clear, so that the log never shows it */
  redact?: (secret: string) => void;
}

export type PullPolicy = "never" | "missing" | "always";

/** What a line of the log is about. */
export interface About {
  team?: string;
  key?: string;
  /** its name */
  sandbox?: string;
  session?: string;
  command?: string;
  /** a process of the host, such as "egress" */
  process?: string;
}

export interface CoreLimits {
  defaultTimeout: number;
  maxTimeout: number;
  defaultVcpus: number;
  /** most sandboxes that run or are paused at once */
  maxSandboxes: number;
  /** bytes of a sandbox's own files */
  disk: number;
  maxDriveSize: number;
  defaultRegion: string;
  /** how long a snapshot lives after its last use unless its sandbox says otherwise */
  snapshotExpiration: number;
  /** how long output is kept after its session has ended; 0 for ever */
  outputRetention: number;
  /** how long a stopped sandbox without a snapshot is remembered; 0 for ever */
  sandboxRetention: number;
  /** how long a session is remembered after its end; 0 for ever */
  sessionRetention: number;
  /** how many sessions of a project are remembered; 0 for all */
  sessionsKept: number;
  /** how long an entry of the audit is kept; 0 for ever */
  auditRetention: number;
  /** how many entries of the audit are kept for each team; 0 for all */
  auditKept: number;
  /** how long the unused result of a build step is kept; 0 for ever */
  buildCacheRetention: number;
  /** how long files that the database does not know are kept; 0 for ever */
  quarantine: number;
}

export interface NetworkSecrets {
  authorityOf(session: Session): AuthoritySpec;
  /** contains a key that signs for every sandbox: only for a policy that forwards */
  identityOf(session: Session): ForwardIdentity;
  /** the certificate that programs must trust, as PEM; it stays the same while the daemon runs */
  certificateOf(authority: AuthoritySpec): string;
  /** name of the certificate's file inside a sandbox */
  certificateFile: string;
}

/** Root certificates that programs inside trust because the host does, such as a company's. */
export interface HostRoots {
  /** each as PEM */
  pems: readonly string[];
  /** every root that the host trusts, for an image without a list of its own */
  bundle: string;
  /** `pems`, one after the other */
  pem: string;
  /** the given Java key store with these added; undefined if it has them already or is not a key store */
  addToJava(store: Uint8Array): Uint8Array | undefined;
}

/** Encrypts secrets before they are stored. */
export interface Seal {
  isSealed(text: string): boolean;
  seal(text: string): string;
  /** throws when the text was sealed with another key, or was changed */
  open(sealed: string): string;
}

/** MiB of memory for each processor */
export const memoryPerVcpu = 2048;
