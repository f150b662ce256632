/** The words after a command, such as `ls` in `sandkeep key ls`: other words for them, and which was probably meant. */

import { didYouMean } from "../base/similar.ts";
import { misuse } from "./errors.ts";

/** words that mean the same in every command */
const synonyms: Record<string, string> = { list: "ls", add: "create", delete: "rm", remove: "rm" };

/** words of other tools, and what to write instead of them */
const otherWords: Record<string, string> = {
  list: "sandkeep ls lists sandboxes",
  images: "sandkeep image ls lists images",
  pull: "sandkeep image pull pulls an image",
  build: "sandkeep image build builds an image",
  create: "sandkeep run --keep makes a sandbox that stays",
  start: "sandkeep exec and sandkeep shell start a stopped sandbox",
  restart: "sandkeep stop stops a sandbox, and sandkeep exec starts it again",
  kill: "sandkeep stop stops a sandbox, and sandkeep rm -f deletes it",
  delete: "sandkeep rm deletes sandboxes",
  remove: "sandkeep rm deletes sandboxes",
  inspect: "sandkeep ls --json shows all of sandboxes, and sandkeep image inspect all of an image",
  commit: "sandkeep snapshot create keeps a sandbox's files, and sandkeep image from-snapshot makes an image of them",
  login: "sandkeep registry login logs in to a registry",
};

/** what to write instead of a command that there is not; `known` are those that there are */
export function otherCommand(given: string, known: string[]): string {
  const meant = (Object.hasOwn(otherWords, given) && otherWords[given]) || didYouMean(given, known);
  return meant || "sandkeep --help lists the commands";
}

/** the word that the commands know it by */
export function verbOf(given: string): string {
  return Object.hasOwn(synonyms, given) ? (synonyms[given] ?? given) : given;
}

/** why a command does not know a word; `known` are those that it has */
export function unknownVerb(command: string, given: string, known: string[]): string {
  if (given === "") return `Cannot do "${command}": it must be followed by ${known.join(", ")}`;
  const all = [...known, ...Object.keys(synonyms).filter((word) => known.includes(verbOf(word)))];
  const meant = didYouMean(given, all) || `There are ${known.join(", ")}`;
  return `Cannot do "${command} ${given}": there is no such command. ${meant}`;
}

/** the first word of a command and the names after it; `verbs` says how many names each word takes */
export function verbAndNames<V extends string>(
  command: string,
  [given = "", ...names]: string[],
  verbs: Record<V, number>,
  usage: string,
): { verb: V; names: string[] } {
  const known = Object.keys(verbs) as V[];
  const verb = known.find((each) => each === verbOf(given));
  if (verb === undefined) throw misuse(unknownVerb(command, given, known), usage);
  if (names.length !== verbs[verb])
    throw misuse(`Cannot do "${command} ${given}": it takes ${namesInWords(verbs[verb])}`, usage);
  return { verb, names };
}

/** how many names a word takes, in words */
export function namesInWords(count: number): string {
  return ["no name", "one name", "two names"][count] ?? `${count} names`;
}
