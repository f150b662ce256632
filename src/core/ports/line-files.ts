/**
 * Files of lines that the core appends to, each under a name of letters, digits, `_` and `-`. No call waits for the disk:
 * what was written survives the daemon, but not always the host. A file that is full loses its oldest lines.
 */

export interface LineFiles {
  /** the newest whole lines, of about so many bytes or all, oldest first; none if there is no such file */
  read(name: string, bytes?: number): string[];
  /** `text` is whole lines */
  append(name: string, text: string): Promise<void>;
  /** the same, before it returns; not while an `append` to this file is under way */
  appendNow(name: string, text: string): void;
  /** replaces the whole content */
  replace(name: string, text: string): Promise<void>;
  delete(name: string): Promise<void>;
}
