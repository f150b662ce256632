/** The file API reaches nothing outside the sandbox: not by links, dots, races or archives. */

import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type Pack, pack } from "tar-stream";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { isSandkeepError } from "../../src/core/model/errors.ts";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { tempDir } from "../harness/harness.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { run, shell, text, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;
/** a file of the host that all its users may read and write */
let outside: string;

beforeAll(async () => {
  host = await withRuntime(undo);
  machine = await host.boot();
  outside = join(await tempDir(undo), "outside");
});

beforeEach(async () => {
  await writeFile(outside, "of the host", { mode: 0o666 });
});

describe.each(users)("as %s", (user) => {
  const ways = () => [
    outside,
    `/../../../..${outside}`,
    `/tmp/../../../..${outside}`,
    `/proc/1/root${outside}`,
    `/proc/1/root/../../..${outside}`,
    `/proc/1/cwd/../../..${outside}`,
    `/proc/self/root/../../..${outside}`,
    `/proc/self/cwd${outside}`,
    `/proc/thread-self/root/..${outside}`,
  ];

  test("no path leads to a file of the host", async () => {
    for (const path of ways()) await expect(text(machine.files(user).read(path)), path).rejects.toThrow();
  });

  test("no symlink leads to a file of the host", async () => {
    for (const target of ways()) {
      const link = `/tmp/link-${randomUUID()}`;
      await shell(machine, user, `ln -s ${target} ${link}`);
      await expect(text(machine.files(user).read(link)), target).rejects.toThrow();
    }
  });

  test("writing through dots and links changes nothing outside", async () => {
    for (const target of ways()) {
      const link = `/tmp/link-${randomUUID()}`;
      await shell(machine, user, `ln -s ${target} ${link}`);
      await machine.files(user).write(link, Buffer.from("overwritten")).catch(refused);
      await machine.files(user).write(target, Buffer.from("overwritten"), { parents: true }).catch(refused);
      await machine.files(user).remove(target, { force: true }).catch(refused);
    }
    expect(await readFile(outside, "utf8")).toBe("of the host");
  });

  test("no path names a descriptor of the agent", async () => {
    for (let fd = 0; fd < 32; fd++) {
      for (const path of [`/proc/1/fd/${fd}`, `/proc/1/task/1/fd/${fd}`])
        await expect(machine.files(user).stat(path), path).rejects.toThrow();
    }
  });

  test("a directory that becomes a link during a request leads nowhere outside", async () => {
    const directory = join(outside, "..");
    await shell(machine, user, `mkdir -p /tmp/race-${user}/real && ln -sfn real /tmp/race-${user}/path`);
    const flipping = await machine.exec({
      id: randomUUID(),
      argv: [
        "bash",
        "-c",
        `while :; do ln -sfn /proc/1/root${directory} /tmp/race-${user}/path; ln -sfn real /tmp/race-${user}/path; done`,
      ],
      user,
      cwd: "/",
    });
    const files = machine.files(user);
    for (let i = 0; i < 200; i++) {
      await files.write(`/tmp/race-${user}/path/outside`, Buffer.from("overwritten")).catch(refused);
      await files.remove(`/tmp/race-${user}/path/outside`).catch(refused);
    }
    await flipping.signal(9);
    await flipping.exited;
    expect(await readFile(outside, "utf8")).toBe("of the host");
  });

  test("a FIFO or a device blocks no other request", async () => {
    await shell(machine, user, "mkfifo -m 666 /tmp/fifo-$$ && mv /tmp/fifo-$$ /tmp/fifo");
    const stuck = text(machine.files(user).read("/tmp/fifo")).catch(() => "refused");
    expect(await text(machine.files(user).read("/etc/hostname"))).not.toBe("");
    // Opened for reading and writing, it does not wait for a reader, which may have been refused.
    await shell(machine, user, "exec 3<> /tmp/fifo; echo >&3; rm -f /tmp/fifo");
    await stuck;
  });
});

describe("an imported tar", () => {
  /** unpacks the members below a fresh directory; its path */
  async function extract(fill: (archive: Pack) => void): Promise<string> {
    const directory = `/tmp/tar-${randomUUID()}`;
    const archive = pack();
    fill(archive);
    archive.finalize();
    await machine.files().mkdir(directory);
    await machine.files().extract(directory, archive.pipe(new PassThrough())).catch(refused);
    return directory;
  }

  test("writes nothing above its directory by dots or absolute names", async () => {
    const directory = await extract((archive) => {
      archive.entry({ name: "../above" }, "x");
      archive.entry({ name: "a/../../above" }, "x");
      archive.entry({ name: "/tmp/absolute" }, "x");
      archive.entry({ name: outside }, "x");
    });
    expect(await shell(machine, "root", `ls ${directory}/.. | grep -cx above || true`)).toBe("0\n");
    expect(await readFile(outside, "utf8")).toBe("of the host");
    expect((await run(machine, "root", ["test", "-e", "/tmp/absolute"])).code).toBe(1);
  });

  test("writes nothing through a symlink that it contains", async () => {
    await machine.files().write("/tmp/target/untouched", Buffer.from("as it was"), { parents: true });
    await extract((archive) => {
      archive.entry({ name: "way", type: "symlink", linkname: "/tmp/target" });
      archive.entry({ name: "way/untouched" }, "overwritten");
      archive.entry({ name: "file", type: "symlink", linkname: "/tmp/target/untouched" });
      archive.entry({ name: "file" }, "overwritten");
      archive.entry({ name: "hard", type: "link", linkname: "/tmp/target/untouched" });
      archive.entry({ name: "hard" }, "overwritten");
      archive.entry({ name: "climbing", type: "link", linkname: "../target/untouched" });
      archive.entry({ name: "climbing" }, "overwritten");
    });
    expect(await text(machine.files().read("/tmp/target/untouched"))).toBe("as it was");
  });

  test("creates no device that can be opened", async () => {
    const directory = await extract((archive) => {
      archive.entry({ name: "disk", type: "block-device", devmajor: 254, devminor: 0, mode: 0o666 });
      archive.entry({ name: "loop", type: "block-device", devmajor: 7, devminor: 0, mode: 0o666 });
      archive.entry({ name: "memory", type: "character-device", devmajor: 1, devminor: 1, mode: 0o666 });
      archive.entry({ name: "null", type: "character-device", devmajor: 1, devminor: 3, mode: 0o666 });
    });
    for (const name of ["disk", "loop", "memory", "null"])
      expect((await run(machine, "root", ["head", "-c", "1", `${directory}/${name}`])).code, name).not.toBe(0);
  });

  test("creates setuid files of the sandbox's root, not the host's", async () => {
    const directory = await extract((archive) => {
      archive.entry({ name: "id", mode: 0o4755, uid: 0, gid: 0 }, "");
      archive.entry({ name: "foreign", mode: 0o4755, uid: 70_000, gid: 70_000 }, "x");
    });
    const owner = await shell(
      machine,
      "root",
      `stat -c %u ${directory}/id; stat -c %u ${directory}/foreign 2>/dev/null || true`,
    );
    for (const uid of owner.trim().split("\n").map(Number)) expect(uid).toBeLessThan(65_536);
  });

  test("that ends early or has wrong lengths is refused, and the agent keeps working", async () => {
    const archive = pack();
    archive.entry({ name: "big", size: 100 }, Buffer.alloc(100));
    archive.finalize();
    const whole = await buffer(archive.pipe(new PassThrough()));
    const lying = Buffer.from(whole);
    lying.write("77777777777\0", 124, "latin1");
    for (const bad of [whole.subarray(0, 540), whole.subarray(0, 300), lying, Buffer.alloc(700, 0xff)]) {
      await machine.files().mkdir("/tmp/bad", { recursive: true });
      await expect(machine.files().extract("/tmp/bad", source(bad))).rejects.toThrow();
    }
    expect((await run(machine, "root", ["echo", "on"])).out).toBe("on\n");
  });
});

/** The API may refuse only with an error of its own. */
function refused(error: unknown): void {
  if (!isSandkeepError(error)) throw error;
}

async function* source(data: Uint8Array): AsyncGenerator<Uint8Array> {
  yield data;
}
