/**
 * The users of a sandbox: Debian's fixed system users, root, and one plain user, uid 1000. That one goes by several
 * names, because each dialect has its own; the first in the file is what programs show.
 */

import type { ImageConventions } from "../../../core/model/conventions.ts";

export interface User {
  name: string;
  uid: number;
  gid: number;
  home: string;
  shell: string;
}

const shell = "/bin/bash";
const noShell = "/usr/sbin/nologin";

export const root: User = { name: "root", uid: 0, gid: 0, home: "/root", shell };

/** the names of uid 1000, and the home of each; "user" is what agents' frameworks call it */
export function plainUsers({ users }: ImageConventions): User[] {
  const named = [...users, { name: "user", home: "/home/user" }];
  return named.map(({ name, home }) => ({ name, uid: 1000, gid: 1000, home, shell }));
}

const systemUsers: User[] = [
  system("daemon", 1, 1, "/usr/sbin"),
  system("bin", 2, 2, "/bin"),
  system("sys", 3, 3, "/dev"),
  { ...system("sync", 4, 65534, "/bin"), shell: "/bin/sync" },
  system("games", 5, 60, "/usr/games"),
  system("man", 6, 12, "/var/cache/man"),
  system("lp", 7, 7, "/var/spool/lpd"),
  system("mail", 8, 8, "/var/mail"),
  system("news", 9, 9, "/var/spool/news"),
  system("uucp", 10, 10, "/var/spool/uucp"),
  system("proxy", 13, 13, "/bin"),
  system("www-data", 33, 33, "/var/www"),
  system("backup", 34, 34, "/var/backups"),
  system("list", 38, 38, "/var/list"),
  system("irc", 39, 39, "/run/ircd"),
  system("_apt", 42, 65534, "/nonexistent"),
  system("nobody", 65534, 65534, "/nonexistent"),
];

const systemGroups: Record<string, number> = {
  root: 0,
  daemon: 1,
  bin: 2,
  sys: 3,
  adm: 4,
  tty: 5,
  disk: 6,
  lp: 7,
  mail: 8,
  news: 9,
  uucp: 10,
  man: 12,
  proxy: 13,
  kmem: 15,
  dialout: 20,
  fax: 21,
  voice: 22,
  cdrom: 24,
  floppy: 25,
  tape: 26,
  sudo: 27,
  audio: 29,
  dip: 30,
  "www-data": 33,
  backup: 34,
  operator: 37,
  list: 38,
  irc: 39,
  src: 40,
  shadow: 42,
  utmp: 43,
  video: 44,
  sasl: 45,
  plugdev: 46,
  staff: 50,
  games: 60,
  users: 100,
  nogroup: 65534,
};

export function passwdFile(plain: User[]): string {
  return lines([root, ...plain, ...systemUsers].map(passwdLine));
}

export function groupFile(plain: User[]): string {
  const names = plain.map((user) => user.name).join(",");
  const groups = Object.entries(systemGroups).map(([name, gid]) => `${name}:x:${gid}:${name === "sudo" ? names : ""}`);
  return lines([...groups, ...plain.slice(0, 1).map(groupLine)]);
}

/** no user has a password, and no password opens an account */
export function shadowFile(plain: User[]): string {
  return lines([root, ...plain, ...systemUsers].map(({ name }) => shadowLine(name)));
}

/** an image's own passwd file with our users added; its entries stay */
export function withPlainUsers(passwd: string, plain: User[]): string {
  return withMissing(passwd, [root, ...plain], passwdLine);
}

export function withPlainGroup(group: string, plain: User[]): string {
  const rootGroup = { ...root };
  return withMissing(group, [rootGroup, ...plain.slice(0, 1)], groupLine);
}

export function withPlainShadow(shadow: string, plain: User[]): string {
  return withMissing(shadow, [root, ...plain], ({ name }) => shadowLine(name));
}

export function sudoersFile(path: string, plain: User[]): string {
  return lines([
    "Defaults env_reset",
    "Defaults !use_pty",
    "Defaults !requiretty",
    "Defaults lecture=never",
    keptVariables,
    `Defaults secure_path="${path}"`,
    "",
    "root ALL=(ALL:ALL) ALL",
    ...sudoRules(plain),
  ]);
}

/** root's programs keep the variables that name trusted certificates (core/trust.ts) */
export const keptVariables = `Defaults env_keep += "${["NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"].join(" ")}"`;

/** by number as well: in an imported image uid 1000 may have another name */
export function sudoRules(plain: User[]): string[] {
  return [...plain.map((user) => user.name), "#1000", "%sudo"].map((who) => `${who} ALL=(ALL:ALL) NOPASSWD: ALL`);
}

function withMissing(file: string, users: User[], lineOf: (user: User) => string): string {
  const there = new Set(file.split("\n").map((line) => line.split(":", 1)[0]));
  const text = file === "" || file.endsWith("\n") ? file : `${file}\n`;
  const missing = users.filter((user) => !there.has(user.name));
  return missing.length === 0 ? text : text + lines(missing.map(lineOf));
}

function passwdLine({ name, uid, gid, home, shell }: User): string {
  return `${name}:x:${uid}:${gid}:${name === "root" ? "root" : ""}:${home}:${shell}`;
}

function groupLine({ name, gid }: User): string {
  return `${name}:x:${gid}:`;
}

function shadowLine(name: string): string {
  return `${name}:*:19000:0:99999:7:::`;
}

function system(name: string, uid: number, gid: number, home: string): User {
  return { name, uid, gid, home, shell: noShell };
}

function lines(all: string[]): string {
  return all.map((line) => `${line}\n`).join("");
}
