/**
 * The users and groups of a sandbox, from its /etc/passwd and /etc/group. Programs inside may write anything into both
 * files, so this reads only their beginning and skips malformed lines.
 */

import { SandkeepError } from "../model/errors.ts";
import type { FileOwner, Files, Machine } from "../ports/runtime.ts";

export interface Account extends FileOwner {
  name: string;
  home: string;
}

/** as much of each file as is read, in bytes and in lines */
const longest = 128 << 10;
const mostLines = 5000;
/** how long an answer counts, in ms; a name that is not among the known ones is looked up again at once */
const fresh = 2000;
/** ms between two such looks: else each wrong name costs the host two files */
const lookAgain = 250;

const known = new WeakMap<Machine, Known>();

interface Known {
  at: number;
  /** when it was last read before its time, for a name that was not there */
  againAt: number;
  accounts: Promise<Accounts>;
}

/** the user of this name; throws if there is none */
export async function accountOf(machine: Machine, name: string, now: number): Promise<Account> {
  const account = (await accountsOf(machine, now)).user(name) ?? (await accountsOf(machine, now, true)).user(name);
  if (account) return account;
  const about = { kind: "user", name } as const;
  throw new SandkeepError("invalid", `Cannot find the user "${name.slice(0, 64)}" in the sandbox`, { about });
}

/** all of them, as they were at most a moment ago, or with `again` as they were a shorter one ago */
export function accountsOf(machine: Machine, now: number, again = false): Promise<Accounts> {
  const there = known.get(machine);
  const isWithin = (since: number, time: number) => now >= since && now - since < time;
  if (there && (again ? isWithin(there.againAt, lookAgain) : isWithin(there.at, fresh))) return there.accounts;
  const accounts = readAccounts(machine.files("root"));
  known.set(machine, { at: now, againAt: again ? now : (there?.againAt ?? Number.NEGATIVE_INFINITY), accounts });
  accounts.catch(() => known.delete(machine));
  return accounts;
}

async function readAccounts(files: Files): Promise<Accounts> {
  const paths = ["/etc/passwd", "/etc/group"];
  const [passwd, group] = await files.together((kept) => Promise.all(paths.map((path) => beginning(kept, path))));
  return new Accounts(passwd ?? "", group ?? "");
}

export class Accounts {
  readonly #users = new Map<string, Account>();
  readonly #names = new Map<number, string>();
  readonly #groups = new Map<number, string>();

  constructor(passwd: string, group: string) {
    // An image without the file has a root too.
    for (const line of [...passwd.split("\n", mostLines), "root:x:0:0::/root:"]) {
      const [name = "", , uid = "", gid = "", , home = ""] = line.split(":", 7);
      const account = { name, uid: numberOf(uid), gid: numberOf(gid), home: home.startsWith("/") ? home : "/" };
      if (name === "" || !isOwner(account)) continue;
      if (!this.#users.has(name)) this.#users.set(name, account);
      if (!this.#names.has(account.uid)) this.#names.set(account.uid, name);
    }
    for (const line of group.split("\n", mostLines)) {
      const [name = "", , gid = ""] = line.split(":", 4);
      const number = numberOf(gid);
      if (name !== "" && number !== undefined && !this.#groups.has(number)) this.#groups.set(number, name);
    }
  }

  /** by a name or a number, and perhaps a group after a colon, as images name their users */
  user(name: string): Account | undefined {
    const [user = "", group] = name.split(":", 2);
    const account = this.#users.get(user) ?? this.#numbered(user);
    if (!account || group === undefined) return account;
    const gid = numberOf(group) ?? [...this.#groups].find(([, each]) => each === group)?.[0];
    return gid === undefined ? undefined : { ...account, gid };
  }

  /** a number without a name is its own group, and at home in the root */
  #numbered(text: string): Account | undefined {
    const uid = numberOf(text);
    if (uid === undefined) return undefined;
    return this.#users.get(this.#names.get(uid) ?? "") ?? { name: text, uid, gid: uid, home: "/" };
  }

  /**
   * the user's name, or the number if there is none. If a number has several names, a preferred one wins, because the
   * caller knows it
   */
  userName(uid: number, preferred: string[] = []): string {
    const known = preferred.find((name) => this.#users.get(name)?.uid === uid);
    return known ?? this.#names.get(uid) ?? String(uid);
  }

  groupName(gid: number, preferred: string[] = []): string {
    const known = preferred.find((name) => this.#users.get(name)?.gid === gid);
    return known ?? this.#groups.get(gid) ?? String(gid);
  }
}

function isOwner<T extends { uid: number | undefined; gid: number | undefined }>(of: T): of is T & FileOwner {
  return of.uid !== undefined && of.gid !== undefined;
}

function numberOf(text: string): number | undefined {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : undefined;
  return number !== undefined && number <= 65_534 ? number : undefined;
}

/** empty if there is no such file */
async function beginning(files: Files, path: string): Promise<string> {
  try {
    if ((await files.stat(path)).type !== "file") return "";
    const parts: Buffer[] = [];
    for await (const part of files.read(path, { length: longest })) parts.push(part);
    return Buffer.concat(parts).toString("utf8");
  } catch (error) {
    if (error instanceof SandkeepError && ["not-found", "invalid", "forbidden"].includes(error.code)) return "";
    throw error;
  }
}
