/** Bytes by port: counted to the byte while connections are open and after, and kept by whoever counts next. */

import { once } from "node:events";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { eventually, tempDir } from "../../../../test/harness/harness.ts";
import { PortMeters, type PortMetersOptions, readPorts } from "./port-meters.ts";

test("a connection's bytes are there while it is open, without those that were exchanged before", async () => {
  const folder = await tempDir();
  const meters = metersFor();
  const [near, far] = await connected();
  near.write("a request");
  far.write("an answer, and more");
  await eventually("it is there", () => near.readableLength > 0);
  expect(String(near.read(9))).toBe("an answer");
  meters.count(folder, 3000, near);
  await meters.flush(folder);
  expect(await readPorts(folder)).toEqual([{ port: 3000, connections: 1, bytesIn: 0, bytesOut: 10 }]);
  near.write("x".repeat(70_000));
  await meters.flush(folder);
  expect(await readPorts(folder)).toEqual([{ port: 3000, connections: 1, bytesIn: 70_000, bytesOut: 10 }]);
  near.destroy();
});

test("a file that a loss of power has emptied is begun anew", async () => {
  const folder = await tempDir();
  await writeFile(join(folder, "ports.json"), "");
  expect(await readPorts(folder)).toEqual([]);
  const meters = metersFor();
  const [near] = await connected();
  meters.count(folder, 3000, near);
  near.write("1234");
  await meters.flush(folder);
  expect(await readPorts(folder)).toEqual([{ port: 3000, connections: 1, bytesIn: 4, bytesOut: 0 }]);
  near.destroy();
});

test("connections of a port add up, and ports are told apart", async () => {
  const folder = await tempDir();
  const meters = metersFor();
  for (const port of [3000, 3000, 4000]) {
    const [near, far] = await connected();
    meters.count(folder, port, near.resume());
    near.end("1234");
    far.end("12");
    await once(near, "close");
  }
  await meters.flush();
  expect(await readPorts(folder)).toEqual([
    { port: 3000, connections: 2, bytesIn: 8, bytesOut: 4 },
    { port: 4000, connections: 1, bytesIn: 4, bytesOut: 2 },
  ]);
});

test("what is counted is written by itself, and the next daemon goes on from there", async () => {
  const folder = await tempDir();
  for (const times of [1, 2]) {
    const meters = metersFor({ every: 5 });
    const [near, far] = await connected();
    meters.count(folder, 3000, near.resume());
    near.write("12345");
    far.write("123");
    const expected = { port: 3000, connections: times, bytesIn: 5 * times, bytesOut: 3 * times };
    await eventually("it is written", async () => {
      expect(await readPorts(folder)).toEqual([expected]);
      return true;
    });
    near.destroy();
    await meters.close();
    expect(await readPorts(folder)).toEqual([expected]);
  }
});

test("counts of many machines are written a few at a time, each in its turn, and all at once when they are asked for", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const meters = metersFor({ every: 250 });
  const folders = await Promise.all(Array.from({ length: 40 }, () => tempDir()));
  const [near] = await connected();
  for (const folder of folders) meters.count(folder, 3000, near);
  const written = async () => {
    const ports = await Promise.all(folders.map(readPorts));
    return ports.filter(([port]) => port?.bytesIn === near.bytesWritten).length;
  };
  near.write("1");
  for (const soFar of [16, 32, 40]) {
    vi.advanceTimersByTime(250);
    await eventually(`${soFar} are written`, async () => (await written()) === soFar);
  }
  near.write("2");
  vi.advanceTimersByTime(250);
  await eventually("the first are written again", async () => (await written()) === 16);
  await meters.flush();
  expect(await written()).toBe(40);
});

test("a folder that is gone stays gone, and no count is written to one that is to be deleted", async () => {
  const [gone, forgotten] = [await tempDir(), await tempDir()];
  const logged: unknown[] = [];
  const meters = metersFor({ logError: (error) => logged.push(error) });
  for (const folder of [gone, forgotten]) {
    const [near] = await connected();
    meters.count(folder, 3000, near);
    near.write("1");
  }
  await rm(gone, { recursive: true });
  await meters.forget(forgotten);
  await meters.flush();
  expect(await readPorts(gone)).toEqual([]);
  expect(await readPorts(forgotten)).toEqual([]);
  expect(logged).toEqual([]);
});

test("what waits to be written when a folder is forgotten is not written after that", async () => {
  const folder = await tempDir();
  const meters = metersFor();
  const [near] = await connected();
  meters.count(folder, 3000, near);
  const first = meters.flush(folder);
  near.write("1");
  const second = meters.flush(folder);
  await meters.forget(folder);
  await rm(join(folder, "ports.json"));
  await Promise.all([first, second]);
  expect(await readPorts(folder)).toEqual([]);
});

test("counts that cannot be written are told once and written when they can", async () => {
  const folder = await tempDir();
  const logged: unknown[] = [];
  const meters = metersFor({ logError: (error) => logged.push(error) });
  const [near] = await connected();
  // A folder where the file is to be.
  await mkdir(join(folder, "ports.json.new"));
  meters.count(folder, 3000, near);
  for (const text of ["12", "345"]) {
    near.write(text);
    await meters.flush();
  }
  expect(logged).toHaveLength(1);
  await rm(join(folder, "ports.json.new"), { recursive: true });
  await meters.flush();
  expect(JSON.parse(await readFile(join(folder, "ports.json"), "utf8"))).toEqual({
    3000: { bytesIn: 5, bytesOut: 0, count: 1 },
  });
});

function metersFor(options: Partial<PortMetersOptions> = {}): PortMeters {
  const meters = new PortMeters({
    every: 3_600_000,
    logError: (error) => {
      throw error;
    },
    ...options,
  });
  onTestFinished(() => meters.close());
  return meters;
}

/** both ends of a connection */
async function connected(): Promise<[near: Socket, far: Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const near = connect(server.address() as { port: number });
  const [far] = (await once(server, "connection")) as [Socket];
  server.close();
  onTestFinished(() => {
    near.destroy();
    far.destroy();
  });
  return [near, far];
}
