/**
 * Notices that the certificate's files have changed, so that a renewal needs no restart. It compares what stat() says of
 * them: a watch of the file system would lose links, which renewing programs replace.
 */

import { stat } from "node:fs/promises";
import type { Config } from "../../config/config.ts";
import { type TlsIdentity, type TlsPlaces, tlsIdentityOf, tlsProblems } from "../../config/tls-settings.ts";
import { messageOf } from "../../core/model/errors.ts";
import type { ClosableServer } from "../listening.ts";
import type { SecureServer } from "./secure-server.ts";

/** the same server, with the certificate of its files as they change, and as they are at SIGHUP */
export function renewed(
  server: SecureServer,
  first: TlsIdentity,
  config: Config,
  warn: (sentence: string) => void,
): ClosableServer {
  const check = (identity: TlsIdentity) => {
    for (const problem of tlsProblems(identity, config.domain, Date.now())) warn(problem);
  };
  check(first);
  const renew = (identity: TlsIdentity) => {
    server.renew(identity);
    check(identity);
  };
  const watch = new CertificateWatch({ places: config, read: () => tlsIdentityOf(config), renew, warn });
  const reload = () => watch.reload();
  process.on("SIGHUP", reload);
  return {
    close(closed) {
      watch.close();
      process.off("SIGHUP", reload);
      server.close(closed);
    },
    closeAllConnections: () => server.closeAllConnections(),
  };
}

export interface CertificateWatchOptions {
  places: TlsPlaces;
  /** reads and checks the files */
  read: () => TlsIdentity | undefined;
  renew: (identity: TlsIdentity) => void;
  warn: (sentence: string) => void;
  /** ms between two looks at the files; default 5 s */
  interval?: number;
}

export class CertificateWatch {
  readonly #options: CertificateWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #seen: Promise<string>;
  #warned = "";

  constructor(options: CertificateWatchOptions) {
    this.#options = options;
    this.#seen = stateOf(options.places);
    this.#timer = setInterval(() => void this.#look(), options.interval ?? 5000).unref();
  }

  /** reads the files now, whether they have changed or not; a bad pair leaves the certificate as it is */
  reload(): void {
    const { read, renew, warn } = this.#options;
    try {
      const identity = read();
      if (identity) renew(identity);
      this.#warned = "";
    } catch (error) {
      // The two files change one after the other: the next look finds both.
      this.#seen = Promise.resolve("");
      const sentence = `${messageOf(error)}. The daemon goes on with the certificate that it has`;
      if (sentence !== this.#warned) warn(sentence);
      this.#warned = sentence;
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const [before, now] = [await this.#seen, await stateOf(this.#options.places)];
    if (before === now) return;
    this.#seen = Promise.resolve(now);
    this.reload();
  }
}

async function stateOf({ tlsCert, tlsKey }: TlsPlaces): Promise<string> {
  const states = [tlsCert, tlsKey].map(async (file = "") => {
    const found = await stat(file).catch(() => undefined);
    return found && [found.dev, found.ino, found.size, found.mtimeMs, found.ctimeMs].join(" ");
  });
  return (await Promise.all(states)).join("\n");
}
