/** Tests of what the user of a session gets in a machine that has just booted, and how often the machine is examined. */

import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { SandkeepError } from "../model/errors.ts";
import type { ImageInfo } from "../ports/images.ts";
import type { Files, Machine } from "../ports/runtime.ts";
import { UserSetup } from "./user-setup.ts";

const [plain, withDrives] = [{ hasDrives: false }, { hasDrives: true }];
const image = { layers: ["one"], user: "old", cwd: "/work/old" } as unknown as ImageInfo;
const passwd = "root:x:0:0::/root:/bin/sh\nold:x:1000:1000::/home/old:/bin/sh\nnew:x:1000:1000::/home/new:/bin/sh\n";

/** a machine with users and these directories of uid 1000, and the calls that were made */
function machineWith(directories: string[] = [], users = passwd) {
  const calls: string[] = [];
  const files = {
    read: (path: string) => {
      calls.push(`read ${path}`);
      return Readable.from([Buffer.from(path === "/etc/passwd" ? users : "old:x:1000:\n")]);
    },
    write: async (path: string, content: Buffer) => void calls.push(`write ${path} ${content.toString().length}`),
    stat: async (path: string) => {
      if (path === "/proc/self") return { uid: 1000, gid: 1000 };
      calls.push(`stat ${path}`);
      if (!directories.includes(path)) throw new SandkeepError("not-found", `There is no "${path}"`);
      return { type: "directory", uid: 1000, gid: 1000 };
    },
    mkdir: async (path: string) => void calls.push(`mkdir ${path}`),
    chown: async (path: string, uid: number, gid: number) => void calls.push(`chown ${path} ${uid}:${gid}`),
    together: (use: (files: Files) => Promise<unknown>) => use(files as unknown as Files),
  };
  const machine = {
    files: (user = "root") => {
      if (["root", "old", "new"].includes(user)) return files;
      throw new SandkeepError("invalid", `There is no user "${user}"`);
    },
  };
  return { machine: machine as unknown as Machine, calls };
}

const writes = [`write /etc/passwd ${passwd.length}`, `write /etc/group ${"new:x:1000:\nold:x:1000:\n".length}`];

test("the image's own user and directory, and what is above that, need nothing", async () => {
  const { machine, calls } = machineWith();
  for (const cwd of ["/work/old", "/work", "/"])
    await new UserSetup().apply(machine, image, { user: "old", cwd }, plain);
  await new UserSetup().apply(machine, image, { user: "root", cwd: "/work" }, plain);
  expect(calls).toEqual([]);
});

test("what the first machine needed is known for the next ones, whose boot then applies it", async () => {
  const setup = new UserSetup();
  const session = { user: "new", cwd: "/home/new" };
  expect(setup.known(image, session)).toBeUndefined();
  await setup.apply(machineWith().machine, image, session, plain);
  const known = setup.known(image, session);
  const { machine, calls } = machineWith();
  await known?.apply(machine.files());
  expect(calls).toEqual([...writes, "mkdir /home/new", "chown /home/new 1000:1000"]);
  expect(setup.known({ ...image, layers: ["two"] }, session)).toBeUndefined();
  expect(setup.known(image, { user: "old", cwd: "/home/new" })).toBeUndefined();
});

test("a machine that needs nothing is not opened again", async () => {
  const setup = new UserSetup();
  const session = { user: "old", cwd: "/home/new" };
  await setup.apply(machineWith(["/home/new"]).machine, image, session, plain);
  expect(setup.known(image, session)).toBeUndefined();
  const { machine, calls } = machineWith();
  await setup.apply(machine, image, session, plain);
  expect(calls).toEqual([]);
});

test("another user of the same number is shown, and gets a directory; later machines are not examined", async () => {
  const setup = new UserSetup();
  const first = machineWith();
  await setup.apply(first.machine, image, { user: "new", cwd: "/home/new" }, plain);
  const made = ["mkdir /home/new", "chown /home/new 1000:1000"];
  expect(first.calls).toEqual(["read /etc/passwd", "read /etc/group", ...writes, "stat /home/new", ...made]);
  const second = machineWith();
  await setup.apply(second.machine, image, { user: "new", cwd: "/home/new" }, plain);
  expect(second.calls).toEqual([...writes, ...made]);
});

test("a directory of the user that is there stays as it is", async () => {
  const setup = new UserSetup();
  for (const looks of [["stat /home/new"], []]) {
    const { machine, calls } = machineWith(["/home/new"]);
    await setup.apply(machine, image, { user: "old", cwd: "/home/new" }, plain);
    expect(calls).toEqual(looks);
  }
});

test("a machine with drives is examined by itself, and others learn nothing from it", async () => {
  const setup = new UserSetup();
  const own = `evil:x:0:0::/:\n${passwd}`;
  const session = { user: "new", cwd: "/home/new" };
  const hostile = machineWith(["/home/new"], own);
  for (let n = 0; n < 2; n++) await setup.apply(hostile.machine, image, session, withDrives);
  expect(hostile.calls.filter((call) => call.startsWith("read"))).toHaveLength(4);
  const other = machineWith();
  await setup.apply(other.machine, image, session, plain);
  expect(other.calls).toEqual(expect.arrayContaining([...writes, "mkdir /home/new"]));
  const later = machineWith(["/home/new"], own);
  await setup.apply(later.machine, image, session, withDrives);
  expect(later.calls).not.toContain("mkdir /home/new");
  expect(later.calls).not.toContain(writes[0]);
});

test("other contents and other settings of an image are examined anew", async () => {
  const setup = new UserSetup();
  const session = { user: "old", cwd: "/home/new" };
  await setup.apply(machineWith(["/home/new"]).machine, image, session, plain);
  for (const other of [
    { ...image, layers: ["two"] },
    { ...image, user: "new" },
  ]) {
    const { machine, calls } = machineWith();
    await setup.apply(machine, other, session, plain);
    expect(calls).toContain("mkdir /home/new");
  }
});

test("a user that the image lacks is refused, for each machine", async () => {
  const setup = new UserSetup();
  for (let n = 0; n < 2; n++) {
    const applied = setup.apply(machineWith().machine, image, { user: "nobody-here", cwd: "/elsewhere" }, plain);
    await expect(applied).rejects.toThrow('There is no user "nobody-here"');
  }
});
