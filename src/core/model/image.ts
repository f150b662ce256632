/** An image's metadata: how it should run, where it comes from and how it was made. */

/** How an image should run, as its maker configured it. */
export interface ImageConfig {
  /** user, or user:group, by name or number; empty for root */
  user: string;
  /** empty for the root directory */
  cwd: string;
  entrypoint: string[];
  /** arguments of the entrypoint, or the whole command if there is none */
  command: string[];
  /** such as 8080/tcp */
  ports: string[];
  volumes: string[];
  labels: Record<string, string>;
  /** name or number of the signal that asks its main program to end */
  stopSignal?: string | undefined;
  /** shell of a build's commands */
  shell?: string[] | undefined;
  /** instructions for builds that begin with it, as its maker wrote them */
  onBuild?: string[] | undefined;
  /** what a sandbox starts when it boots */
  start?: StartCommand | undefined;
  author?: string | undefined;
  /** when its maker finished it, in ms */
  builtAt?: number | undefined;
  /** oldest first */
  history: ImageStep[];
}

/** A line for the shell that runs as long as the sandbox, as the image's user and in its directory. */
export interface StartCommand {
  /** undefined if the sandbox only waits */
  command?: string | undefined;
  /** a line for the shell that succeeds when the sandbox is ready; undefined if it is ready at once */
  ready?: string | undefined;
}

/** One step of how an image was made. */
export interface ImageStep {
  createdBy: string;
  comment?: string | undefined;
  /** in ms */
  createdAt?: number | undefined;
  /** whether it changed no files, so that no layer belongs to it */
  isEmpty?: boolean | undefined;
}

/** A layer of an image as its maker published it. */
export interface ImagePart {
  /** digest of its plain tar, as 64 hexadecimal digits */
  diffId: string;
  /** digest of the file that it came in, as 64 hexadecimal digits */
  digest?: string | undefined;
  /** bytes of the file that it came in */
  packedSize?: number | undefined;
  /** bytes of its plain tar */
  size: number;
  /** the stored layer that holds this part and all below it, or this part alone */
  layer: string;
}

/** Where an image was pulled from. */
export interface ImageSource {
  /** registry/repository:tag or registry/repository@digest, in full */
  reference: string;
  /** digest of its manifest, as 64 hexadecimal digits */
  manifest: string;
  /** digest of the index that the manifest was chosen from */
  index?: string | undefined;
}

/** the user of commands: as the image says, with its group; "app:" is the same as "app" */
export function userOf({ user }: Pick<ImageConfig, "user">): string {
  const [name = "", group = ""] = user.split(":", 2);
  return group === "" ? name || "root" : `${name || "root"}:${group}`;
}

export function plainConfig(): ImageConfig {
  return { user: "", cwd: "", entrypoint: [], command: [], ports: [], volumes: [], labels: {}, history: [] };
}

/**
 * the key by which machines, snapshots and sandboxes refer to an image: the name of a host's image, or for a team's
 * image a text that cannot be a name
 */
export function imageKey({ name, owner }: { name: string; owner?: string | undefined }): string {
  return owner === undefined ? name : `~${owner}~${name}`;
}

/** the name of the image that the key stands for */
export function nameOfKey(key: string): string {
  return key.replace(/^~[^~]*~/, "");
}

/** the name under which people know the image of a sandbox or snapshot: the imported one that was asked for, or the real one */
export function nameOfBase({ image, imageName }: { image: string; imageName?: string }): string {
  return imageName ?? nameOfKey(image);
}
