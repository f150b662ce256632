/** The words after a command, such as `ls` in `sandkeep key ls`: other words for them, and which was probably meant. */

import { didYouMean } from "../base/similar.ts";

/** words that mean the same in every command */
const synonyms: Record<string, string> = { list: "ls", delete: "rm", remove: "rm" };

/** the word that the commands know it by */
export function verbOf(given: string): string {
  return Object.hasOwn(synonyms, given) ? (synonyms[given] ?? given) : given;
}

/** why a command does not know a word; `known` are those that it has */
export function unknownVerb(command: string, given: string, known: string[]): string {
  if (given === "") return `Cannot do "${command}": it must be followed by ${known.join(", ")}`;
  const all = [...known, ...Object.keys(synonyms).filter((word) => known.includes(verbOf(word)))];
  const meant = didYouMean(given, all);
  return `Cannot do "${command} ${given}": there is no such command${meant === "" ? "" : `. ${meant}`}`;
}

/** how many names a word takes, in words */
export function namesInWords(count: number): string {
  return ["no name", "one name", "two names"][count] ?? `${count} names`;
}
