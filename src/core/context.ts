/** What every service of the core stands on: the store, the runtime, the clock, ids and the host's limits. */

import type { Events } from "./events/events.ts";
import type { Ids } from "./model/ids.ts";
import type { Session } from "./model/sandbox.ts";
import type { AuthoritySpec, CustomNetwork } from "./network/network-policy.ts";
import type { RecoveryFiles } from "./ports/recovery-files.ts";
import type { Runtime } from "./ports/runtime.ts";
import type { Store } from "./ports/store.ts";

export interface Context {
  store: Store;
  runtime: Runtime;
  files: RecoveryFiles;
  ids: Ids;
  /** what others hear of changes */
  events: Events;
  now: () => number;
  /** a clock that nobody sets, in ms since any moment; default the same */
  steady?: () => number;
  /** now, once the ends of sessions are moved to a wall clock that somebody has set; see clock.ts */
  settledNow?: () => Promise<number>;
  limits: CoreLimits;
  /** what a sandbox boots from whose caller names nothing */
  defaultImage: string;
  /** images by the names, with `*` for any text, under which the operator wants them found */
  imageAliases?: Record<string, string>;
  /** when an image that a caller names is pulled from its registry; default never */
  pullPolicy?: PullPolicy;
  seal: Seal;
  /** what the rules of a session's policy are carried out with */
  networkSecrets?: NetworkSecrets;
  /** what the host believes and images may not know */
  hostRoots?: HostRoots;
  /** variables that every command gets unless its caller says otherwise */
  sandboxEnv?: Record<string, string>;
  /** told, each sentence once, where callers get something else than they may think */
  notice: (sentence: string) => void;
  /** called with errors of background work, and with the things that they are about */
  trouble: (error: unknown, about?: About) => void;
  /** tells the log what the call that is under way is about */
  about?: (about: About) => void;
  /** called with each secret that passes through in the clear: no line of the log shows it */
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
  /** of the host's, such as "egress" */
  process?: string;
}

export interface CoreLimits {
  defaultTimeout: number;
  maxTimeout: number;
  defaultVcpus: number;
  /** most that run at once */
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
  /** how long the files after a build's step are kept that no build uses; 0 for ever */
  buildCacheRetention: number;
  /** how long what the database does not know is kept; 0 for ever */
  quarantine: number;
}

export interface NetworkSecrets {
  of(session: Session): Pick<CustomNetwork, "authority" | "identity">;
  /** what programs have to believe, as PEM: the same one as long as the daemon runs */
  certificateOf(authority: AuthoritySpec): string;
  /** name of the file that it is in, inside a sandbox */
  certificateFile: string;
}

/** Certificates of authorities that programs inside believe because the host does, such as a company's. */
export interface HostRoots {
  /** each as PEM */
  pems: readonly string[];
  /** everybody whom the host believes, for an image that has no list of its own */
  bundle: string;
  /** `pems`, one after the other */
  pem: string;
  /** Java's store with these in it; undefined where it has them, or is none */
  addToJava(store: Uint8Array): Uint8Array | undefined;
}

/** Keeps secrets unreadable where they are stored. */
export interface Seal {
  isSealed(text: string): boolean;
  seal(text: string): string;
  /** throws when it was sealed with another key, or changed */
  open(sealed: string): string;
}

/** MiB of memory that each processor comes with */
export const memoryPerVcpu = 2048;
