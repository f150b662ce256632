/**
 * Records that sandboxes cannot do without, each written twice: <name>.json, and .<name>.json.copy beside it. A damaged
 * record is renamed to <name>.json.damaged, reported, and restored from its copy. One whose copy is damaged too counts
 * as missing, so that it blocks nothing else. A spare is one more copy, in another folder.
 */

import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { z } from "zod";
import { isMissing, textIfThere, writeJson } from "./json-file.ts";

/** called with a sentence for each damaged record; one for the whole process */
let say = (sentence: string): void => void process.stderr.write(`sandkeep: ${sentence}\n`);

export function tellOfDamage(tell: (sentence: string) => void): void {
  say = tell;
}

export async function writeKept(path: string, record: object): Promise<void> {
  await writeJson(path, record);
  // The record is written. If there is no room for a copy, no copy is better than an outdated one.
  await writeJson(copyOf(path), record, { durable: false }).catch(() => rm(copyOf(path), { force: true }));
}

/** undefined when no readable record exists */
export async function readKept<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await textIfThere(path);
  if (text === undefined) return undefined;
  const record = parsed(text, schema);
  if (record !== undefined) return record;
  return healed(path, (copy) => parsed(copy, schema));
}

export async function removeKept(path: string): Promise<void> {
  await rm(path, { force: true });
  await rm(copyOf(path), { force: true });
}

/** synchronous, as a machine cannot wait for it */
export function writeKeptSync(path: string, text: string): void {
  replace(path, text);
  try {
    replace(copyOf(path), text);
  } catch {
    // As in writeKept.
    rmSync(copyOf(path), { force: true });
  }
}

function replace(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** "damaged" when a record exists but neither it nor a copy can be read; `spare` is the path of one more copy */
export function readKeptSync<T>(
  path: string,
  parse: (text: string) => T | undefined,
  spare?: string,
): T | "damaged" | undefined {
  const text = textOf(path);
  const copies = [copyOf(path), ...(spare === undefined ? [] : [spare])];
  // Copies are written after the record: where a copy exists, a record existed.
  const was = text !== undefined || copies.some((copy) => existsSync(copy));
  if (!was) return existsSync(`${path}.damaged`) ? "damaged" : undefined;
  return (text === undefined ? undefined : parse(text)) ?? healed(path, parse, copies) ?? "damaged";
}

/** Writes the copy of a good record again if it is damaged. Otherwise a second damage could destroy the record too. */
export function mendCopy(path: string): void {
  const text = textOf(path);
  if (text && !isReadable(copyOf(path))) replace(copyOf(path), text);
}

/** whether a file holds valid JSON */
export function isReadable(path: string): boolean {
  try {
    return typeof JSON.parse(textOf(path) ?? "") === "object";
  } catch {
    return false;
  }
}

/** sets aside a damaged record that cannot be restored from anything */
export function setAside(path: string): void {
  const damaged = `${path}.damaged`;
  if (existsSync(path)) renameSync(path, damaged);
  else if (existsSync(damaged)) return;
  else writeFileSync(damaged, "", { mode: 0o600 });
  const how = `restore "${path}" from a backup, or delete "${damaged}" to give up what it was about`;
  say(`The record "${path}" is damaged and has no good copy. It was set aside; ${how}`);
}

/** reports a record that was restored from its layer */
export function tellMadeAgain(path: string, was: "damaged" | "missing"): void {
  say(`The record "${path}" was ${was} and has been made again from its layer`);
}

/** the last time a record in the folder was set aside and not restored, in ms since 1970; 0 when there is none */
export async function lastLoss(folder: string): Promise<number> {
  const lost = (await readdir(folder))
    .filter((name) => name.endsWith(".json.damaged"))
    .map((name) => join(folder, name))
    .filter((path) => !existsSync(path.slice(0, -".damaged".length)));
  return Math.max(0, ...lost.map((path) => statSync(path, { throwIfNoEntry: false })?.ctimeMs ?? 0));
}

function healed<T>(path: string, parse: (text: string) => T | undefined, copies = [copyOf(path)]): T | undefined {
  const damaged = `${path}.damaged`;
  for (const copy of copies) {
    const text = textOf(copy) ?? "";
    const record = parse(text);
    if (record === undefined) continue;
    const isThere = existsSync(path);
    // A copy, not a rename: the record exists at every moment.
    if (isThere) copyFileSync(path, damaged);
    writeKeptSync(path, text);
    const what = isThere ? `was damaged and has been made again from its copy; the damaged one is "${damaged}"` : "";
    say(`The record "${path}" ${what || "was missing and has been made again from its copy"}`);
    return record;
  }
  // Deleting the record that is set aside gives it up. A damaged copy left here would bring it back.
  for (const copy of copies) if (existsSync(copy)) renameSync(copy, `${copy}.damaged`);
  setAside(path);
  return undefined;
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (!isMissing(error)) throw error;
    return undefined;
  }
}

function parsed<T>(text: string, schema: z.ZodType<T>): T | undefined {
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function copyOf(path: string): string {
  return join(dirname(path), `.${basename(path)}.copy`);
}
