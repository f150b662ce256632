/** The numbers of a user inside a machine. They are asked for once: a name's number does not change while it runs. */

import type { Machine } from "../ports/runtime.ts";

export interface UserIds {
  uid: number;
  gid: number;
}

const known = new WeakMap<Machine, Map<string, Promise<UserIds>>>();

/** rejects when the machine knows no such user */
export function userIds(machine: Machine, user: string): Promise<UserIds> {
  const users = known.get(machine) ?? new Map<string, Promise<UserIds>>();
  known.set(machine, users);
  const there = users.get(user);
  if (there) return there;
  // The process that serves a user's files is that user's.
  const asked = machine
    .files(user)
    .stat("/proc/self")
    .then(({ uid, gid }) => ({ uid, gid }));
  users.set(user, asked);
  asked.catch(() => users.delete(user));
  return asked;
}
