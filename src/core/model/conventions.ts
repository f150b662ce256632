/**
 * Names and paths that a dialect's clients rely on: a sandbox's user and folders, the file of its certificate, the
 * headers of forwarded requests. The dialect provides them as data, and the daemon passes them on.
 */

export interface Conventions {
  image: ImageConventions;
  /** name of the file with the certificate of a sandbox's authority */
  certificateFile: string;
  forwardHeaders: ForwardHeaders;
  /** names of regions, the default first, if the operator gives none */
  regions: readonly [string, ...string[]];
}

/** What every image is set up with. */
export interface ImageConventions {
  /** names of the plain user, uid 1000, and the home of each; sessions run as the first */
  users: readonly [PlainUser, ...PlainUser[]];
  /** where commands start */
  cwd: string;
  /** the plain user's folder at the root, for programs (bin) and language runtimes (runtimes) */
  folder: string;
}

export interface PlainUser {
  name: string;
  home: string;
}

/** Headers that name a forwarded request's destination and prove which sandbox sent it. */
export interface ForwardHeaders {
  host: string;
  scheme: string;
  port: string;
  path: string;
  /** proves which sandbox sent it: a secret */
  token: string;
}
