/**
 * Orders to the launcher that cannot be carried out: machines, roots, volumes and layers that do not exist or are of
 * the wrong kind. Each gets a refusal with a sentence, and leaves nothing behind.
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { FrameWriter, Type, What } from "../../src/protocols/guest-frames.ts";
import { useHostileHost } from "../harness/guest/hostile-host.ts";
import { RawClient, refusalOf } from "../harness/guest/raw-client.ts";
import { eventually } from "../harness/harness.ts";

const { E2BIG, EADDRINUSE, EALREADY, EBADF, EBADMSG, EEXIST, EINVAL, ENAMETOOLONG } = constants.errno;
const { ENOENT, ENOSYS, ENOTDIR, EOPNOTSUPP, ESRCH } = constants.errno;

const host = useHostileHost();

describe("the launcher", () => {
  test.for([
    ["KILL", Type.kill, (w: FrameWriter) => w],
    ["NETWORK", Type.network, (w: FrameWriter) => w.u8(1)],
    ["COUNTERS", Type.counters, (w: FrameWriter) => w],
    ["WRITES", Type.writes, (w: FrameWriter) => w.str("/nowhere").u8(0)],
    ["ACTIVATE", Type.activate, (w: FrameWriter) => w.list(["/"]).str("/nowhere").u32(0).u32(0).u64(0).u16(0)],
  ] as const)("refuses %s for a machine that does not exist, and half of such a request", async ([, type, rest]) => {
    using client = await RawClient.open(host().launcher);
    const whole = () => rest(new FrameWriter().str("nobody"));
    expect(await client.refusal(type, whole())).toMatchObject({
      errno: ESRCH,
      sentence: 'There is no machine "nobody"',
    });
    expect(await client.refusal(type, whole().u8(0))).toMatchObject({ errno: EBADMSG, sentence: malformed });
    expect(await client.refusal(type)).toMatchObject({ errno: EBADMSG, sentence: malformed });
  });

  test.for<[string, Partial<Order>, number, RegExp]>([
    ["no name", { name: "" }, EBADMSG, /malformed/],
    ["a name that is a path", { name: "../x" }, EBADMSG, /malformed/],
    ["a name that is too long", { name: "x".repeat(65) }, EBADMSG, /malformed/],
    ["the host's own ids", { base: 0 }, EBADMSG, /malformed/],
    ["ids beyond the last", { base: 0xffff_fff0 }, EBADMSG, /malformed/],
    ["an unknown network", { network: 9 }, EBADMSG, /malformed/],
    ["a socket in no folder", { socket: "/nowhere/s" }, ENOENT, /"\/nowhere\/s": No such file/],
    ["a socket with too long a path", { socket: `/run/${"x".repeat(200)}` }, ENAMETOOLONG, /too long/],
    ["a journal that does not exist", { journal: "/nowhere" }, ENOENT, /"\/nowhere": No such file/],
    ["a journal that is a file", { journal: "/etc/hostname" }, ENOTDIR, /Not a directory/],
    ["a cgroup that does not exist", { unified: "/nowhere" }, ENOENT, /"\/nowhere": No such file/],
    ["a cgroup that is none", { unified: "/run" }, EBADF, /making its namespaces/],
    ["a v1 cgroup that does not exist", { cgroups: ["/nowhere"] }, ENOENT, /"\/nowhere": No such file/],
    ["a folder without processes", { cgroups: ["/run"] }, ENOENT, /"\/run": No such file/],
    ["a count of kills that is not there", { memoryEvents: "/nowhere" }, ENOENT, /"\/nowhere": No such file/],
  ])("refuses to prepare a machine with %s", async ([, wrong, errno, sentence]) => {
    using client = await RawClient.open(host().launcher);
    const refusal = await client.refusal(Type.prepare, prepare({ ...(await order()), ...wrong }));
    expect(refusal).toMatchObject({ errno, sentence: expect.stringMatching(sentence) });
    expect(readdirSync(host().scratch).filter((name) => name.endsWith(".sock"))).toEqual([]);
  });

  test("does not touch a file where its socket should be", async () => {
    using client = await RawClient.open(host().launcher);
    const precious = join(host().scratch, "precious");
    writeFileSync(precious, "kept");
    for (const socket of [precious, host().agent]) {
      const refusal = await client.refusal(Type.prepare, prepare({ ...(await order()), socket }));
      expect(refusal).toMatchObject({ errno: EADDRINUSE, sentence: expect.stringContaining(socket) });
    }
    expect(readFileSync(precious, "utf8")).toBe("kept");
  });

  test("refuses a name that a machine already has", async () => {
    using client = await RawClient.open(host().launcher);
    const { name } = host();
    expect(await client.refusal(Type.prepare, prepare({ ...(await order()), name }))).toMatchObject({ errno: EEXIST });
  });

  test("refuses impossible roots, and the machine waits for a possible one", async () => {
    using client = await RawClient.open(host().launcher);
    await using machine = await prepared(client);
    const { name, socket } = machine;
    const layers = await hostLayers();
    const volume = await plainVolume();
    const many = Array.from({ length: 481 }, () => volume);
    const cases: [layers: string[], volume: string, sentence: string][] = [
      [["/nowhere"], volume, 'Cannot boot from layer "/nowhere": it does not exist'],
      [[...layers, "/etc/hostname"], volume, 'Cannot boot from layer "/etc/hostname": not a directory'],
      [[], volume, "Cannot boot: there is no layer to boot from"],
      [many, volume, "Cannot boot: there are more than 480 layers"],
      [layers, "/nowhere", 'Cannot boot from layer "/nowhere": it does not exist'],
      [layers, `${volume}/fs`, `Cannot boot on volume "${volume}/fs": it has no fs or no work`],
    ];
    for (const [chain, on, sentence] of cases) {
      expect(await client.refusal(Type.activate, activate(name, chain, on))).toMatchObject({
        what: What.layer,
        sentence,
      });
    }
    expect((await client.ask(Type.activate, activate(name, layers, volume))).type).toBe(Type.ok);
    using inside = await RawClient.open(socket);
    expect((await inside.ask(Type.ping)).type).toBe(Type.ok);
  });

  test("refuses impossible further mounts", async () => {
    using client = await RawClient.open(host().launcher);
    await using machine = await prepared(client);
    const { name } = machine;
    const root = [name, await hostLayers(), await plainVolume()] as const;
    const drive = (path: string, directory: string) => ({ path, directory });
    const missing = await client.refusal(Type.activate, activate(...root, [drive("/mnt", "/nowhere")]));
    expect(missing).toMatchObject({ errno: ENOENT, what: What.layer });
    for (const path of ["", "mnt", `/${"x".repeat(5000)}`]) {
      const refusal = await client.refusal(Type.activate, activate(...root, [drive(path, "/run")]));
      expect(refusal).toMatchObject({ errno: EBADMSG, sentence: malformed });
    }
    const many = Array.from({ length: 1000 }, (_, i) => drive(`/mnt/${i}`, "/run"));
    expect(await client.refusal(Type.activate, activate(...root, many))).toMatchObject({ errno: EBADMSG });
  });

  test("gives a machine one root, and answers each of several requests to kill it", async () => {
    using client = await RawClient.open(host().launcher);
    await using machine = await prepared(client);
    const { name } = machine;
    const payload = activate(name, await hostLayers(), await plainVolume());
    client.send(payload.frame(Type.activate, 5));
    expect(refusalOf(await client.ask(Type.activate, payload, 6))).toMatchObject({
      errno: EALREADY,
      sentence: `Cannot activate "${name}": it has a root already`,
    });
    await eventually("the activation", () => client.answers.some(({ type, id }) => type === Type.ok && id === 5));
    const kill = new FrameWriter().str(name);
    client.send(kill.frame(Type.kill, 7));
    client.send(kill.frame(Type.kill, 8));
    await eventually("both answers", () => client.answers.filter(({ id }) => id === 7 || id === 8).length === 2);
    await eventually("the end of the machine", async () => {
      const answer = await client.ask(Type.kill, kill);
      return answer.type === Type.fail && refusalOf(answer).errno === ESRCH;
    });
  });

  test("a machine whose client disconnects before it is ready can still be killed", async () => {
    const wanted = await order();
    const maker = await RawClient.open(host().launcher);
    maker.send(prepare(wanted).frame(Type.prepare, 1));
    maker.close();
    using client = await RawClient.open(host().launcher);
    await eventually("the machine", async () => {
      return (await client.ask(Type.kill, new FrameWriter().str(wanted.name))).type === Type.ok;
    });
    await eventually("its socket's end", () => !readdirSync(host().scratch).includes(`${wanted.name}.sock`));
  });

  test("does not take over a process that does not exist", async () => {
    using client = await RawClient.open(host().launcher);
    const readopt = (name: string, pid: number) =>
      new FrameWriter().str(name).u32(pid).u32(0x7000_0000).str("/nowhere/s").str("").u8(1);
    expect(await client.refusal(Type.readopt, readopt("x", 0x3fff_ffff))).toMatchObject({ what: What.system });
    expect(await client.refusal(Type.readopt, readopt("x", 1))).toMatchObject({ errno: EBADMSG });
    expect(await client.refusal(Type.readopt, readopt("a b", 99))).toMatchObject({ errno: EBADMSG });
  });

  test("refuses impossible volumes", async () => {
    using client = await RawClient.open(host().launcher);
    const plain = join(host().directory, "store/hostile-folder");
    await mkdir(plain);
    const missing = join(host().directory, "store/nowhere");
    const cases: [type: number, payload: FrameWriter, errno: number][] = [
      [Type.volumeCreate, new FrameWriter().str(join(host().scratch, "v")), EOPNOTSUPP],
      [Type.volumeCreate, new FrameWriter().str(join(missing, "v")), ENOENT],
      [Type.volumeCreate, new FrameWriter().str(plain), EEXIST],
      [Type.volumeCreate, new FrameWriter().str(`${plain}/..`), EEXIST],
      [Type.volumeCreate, new FrameWriter().str("relative"), EINVAL],
      [Type.volumeCreate, new FrameWriter().str(""), EINVAL],
      [Type.volumeSnapshot, new FrameWriter().str(missing).str(`${plain}/s`), ENOENT],
      [Type.volumeSnapshot, new FrameWriter().str(plain).str(`${plain}/s`), EINVAL],
      [Type.volumeSnapshot, new FrameWriter().str(host().scratch).str(join(host().scratch, "s")), EOPNOTSUPP],
      [Type.volumeCopy, new FrameWriter().str(missing).str(`${plain}/s`).u64(0), ENOENT],
      [Type.volumeCopy, new FrameWriter().str(plain).str(`${plain}/s`).u64(1), EINVAL],
      [Type.volumeCopy, new FrameWriter().str(host().scratch).str(join(host().scratch, "s")).u64(0), EOPNOTSUPP],
      [Type.volumeCopy, new FrameWriter().str("").str("").u64(0), ENOENT],
      [Type.volumeCopy, new FrameWriter().str(plain).str("/".repeat(4096)).u64(0), ENAMETOOLONG],
      [Type.volumeDelete, new FrameWriter().str(missing), ENOENT],
      [Type.volumeDelete, new FrameWriter().str(plain), EINVAL],
      [Type.volumeDelete, new FrameWriter().str(host().scratch), EOPNOTSUPP],
      [Type.volumeDelete, new FrameWriter().str("/"), EINVAL],
      [Type.volumeLimit, new FrameWriter().str(missing).u64(1), ENOENT],
      [Type.volumeLimit, new FrameWriter().str(host().scratch).u64(1), EOPNOTSUPP],
      [Type.volumeUsage, new FrameWriter().str(missing), ENOENT],
      [Type.volumeUsage, new FrameWriter().str(host().scratch), EOPNOTSUPP],
      [Type.volumeUsage, new FrameWriter().u8(1), EBADMSG],
    ];
    for (const [type, payload, errno] of cases) {
      const refusal = await client.refusal(type, payload);
      expect([type, refusal]).toEqual([type, { errno, what: What.path, sentence: expect.stringMatching(/^Cannot /) }]);
    }
    await rm(plain, { recursive: true });
  });

  test.for<[string, number, FrameWriter, number]>([
    ["file sessions in no directory", Type.filesAt, new FrameWriter().str("/nowhere"), ENOENT],
    ["file sessions in a file", Type.filesAt, new FrameWriter().str("/etc/hostname"), ENOTDIR],
    ["file sessions in nothing", Type.filesAt, new FrameWriter().str(""), ENOENT],
    ["half a request for a file session", Type.filesAt, new FrameWriter().u8(0), EBADMSG],
    ["the flattening of nothing", Type.flatten, new FrameWriter().list([]).str("/nowhere"), EINVAL],
    ["the flattening of what is not there", Type.flatten, new FrameWriter().list(["/nowhere"]).str("/nowhere"), ENOENT],
    ["the flattening of a file", Type.flatten, new FrameWriter().list(["/etc/hostname"]).str("/nowhere"), ENOTDIR],
    ["a flattening into nowhere", Type.flatten, new FrameWriter().list(["/run/lock"]).str("/nowhere"), ENOENT],
    ["half a flattening", Type.flatten, new FrameWriter().list(["/run/lock"]), EBADMSG],
    ["the flattening of too much", Type.flatten, tooManyLayers(), E2BIG],
    ["the sync of what is not there", Type.sync, new FrameWriter().str("/nowhere"), ENOENT],
  ])("refuses %s", async ([, type, payload, errno]) => {
    using client = await RawClient.open(host().launcher);
    expect(await client.refusal(type, payload)).toMatchObject({ errno, sentence: expect.stringMatching(/^Cannot /) });
    using late = await RawClient.open(host().launcher);
    await late.ask(Type.ping);
    expect(await late.refusal(type, payload)).toMatchObject({ errno: ENOSYS });
  });
});

const malformed = "Cannot read the request: it is malformed";

/** the payload of PREPARE */
interface Order {
  name: string;
  base: number;
  socket: string;
  journal: string;
  unified: string;
  cgroups: string[];
  memoryEvents: string;
  network: number;
}

let orders = 0;

/** a request that could be carried out */
async function order(): Promise<Order> {
  const name = `hostile-${++orders}`;
  const journal = join(host().scratch, name);
  await mkdir(journal);
  const socket = join(host().scratch, `${name}.sock`);
  return { name, base: 0x6fff_0000, socket, journal, unified: "", cgroups: [], memoryEvents: "", network: 0 };
}

function prepare(order: Order): FrameWriter {
  const { name, base, socket, journal, unified, cgroups, memoryEvents, network } = order;
  return new FrameWriter()
    .str(name)
    .u32(base)
    .str(socket)
    .str(journal)
    .str(unified)
    .list(cgroups)
    .str(memoryEvents)
    .u8(network);
}

function activate(
  name: string,
  layers: string[],
  volume: string,
  mounts: { path: string; directory: string }[] = [],
): FrameWriter {
  const payload = new FrameWriter()
    .str(name)
    .list(layers)
    .str(volume)
    .u32(0)
    .u32(0)
    .u64(1 << 20);
  payload.u16(mounts.length);
  for (const { path, directory } of mounts) payload.str(path).str(directory).u8(1);
  return payload;
}

/** a machine that waits for its root, killed at the end of the scope */
async function prepared(client: RawClient): Promise<Order & AsyncDisposable> {
  const wanted = await order();
  expect((await client.ask(Type.prepare, prepare(wanted))).type).toBe(Type.ok);
  return {
    ...wanted,
    async [Symbol.asyncDispose]() {
      using killer = await RawClient.open(host().launcher);
      await killer.ask(Type.kill, new FrameWriter().str(wanted.name));
    },
  };
}

/** the parts of a root */
async function hostLayers(): Promise<string[]> {
  const { layers, images } = host().runtime;
  return layers.lowerDirs((await images.get("host"))?.layers ?? []);
}

async function plainVolume(): Promise<string> {
  const volume = join(host().directory, `store/hostile-volume-${++orders}`);
  for (const name of ["fs", "work"]) await mkdir(join(volume, name), { recursive: true });
  onTestFinished(() => rm(volume, { recursive: true }));
  return volume;
}

function tooManyLayers(): FrameWriter {
  return new FrameWriter().list(Array.from({ length: 600 }, () => "/run/lock")).str("/nowhere");
}
