/** The ids of a user inside a machine, looked up once: they do not change while the machine runs. */

import type { Machine } from "../ports/runtime.ts";

export interface UserIds {
  uid: number;
  gid: number;
}

const known = new WeakMap<Machine, Map<string, Promise<UserIds>>>();

/** rejects when the machine has no such user */
export function userIds(machine: Machine, user: string): Promise<UserIds> {
  const users = known.get(machine) ?? new Map<string, Promise<UserIds>>();
  known.set(machine, users);
  const there = users.get(user);
  if (there) return there;
  // The process that serves a user's files runs as that user.
  const asked = machine
    .files(user)
    .stat("/proc/self")
    .then(({ uid, gid }) => ({ uid, gid }));
  users.set(user, asked);
  asked.catch(() => users.delete(user));
  return asked;
}
