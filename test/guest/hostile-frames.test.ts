/**
 * Bad input on the sockets of the launcher and of an agent: malformed frames, invalid requests, clients that do not
 * read. Each gets a refusal with a sentence or the end of its connection.
 */

import { constants } from "node:os";
import { describe, expect, test } from "vitest";
import { FrameWriter, headerLength, Type, What } from "../../src/protocols/guest-frames.ts";
import { residentBytes, useHostileHost } from "../harness/guest/hostile-host.ts";
import { RawClient, randomBytes, refusalOf } from "../harness/guest/raw-client.ts";
import { eventually } from "../harness/harness.ts";

const { EBADMSG, EEXIST, EINVAL, ENOENT, ENOSYS, EPERM, EPROTO, ESRCH } = constants.errno;

const host = useHostileHost();

describe.for(["launcher", "agent"] as const)("on the socket of the %s", (whose) => {
  const path = () => host()[whose];

  test.for([
    ["5 GB", "00f2052a2201000000"],
    ["4 GiB", "ffffffff0901000000"],
    ["a byte too many", "010010000901000000"],
  ] as const)("a frame that claims %s ends the connection", async ([, header]) => {
    using client = await RawClient.open(path());
    client.send(Buffer.from(header, "hex"));
    await client.untilClosed();
    expect(client.answers).toEqual([]);
  });

  test("a frame that ends in the middle blocks no other client", async () => {
    const frame = new FrameWriter().raw(Buffer.alloc(1000)).frame(Type.ping, 1);
    using silent = new DisposableStack();
    for (const length of [0, 1, headerLength - 1, headerLength, 500]) {
      silent.use(await RawClient.open(path())).send(frame.subarray(0, length));
    }
    using other = await RawClient.open(path());
    expect((await other.ask(Type.ping)).type).toBe(Type.ok);
  });

  test("an unknown request is refused, and the next one is answered", async () => {
    const known = new Set<number>(Object.values(Type));
    const unknown = Array.from({ length: 256 }, (_, type) => type).filter((type) => !known.has(type));
    using client = await RawClient.open(path());
    for (const type of unknown) client.send(new FrameWriter().u32(type).frame(type, 1000 + type));
    await client.ask(Type.ping);
    const refusals = client.answers
      .filter(({ id }) => id >= 1000)
      .map(({ id, ...answer }) => [id, refusalOf({ id, ...answer })]);
    const refused = (type: number) => ({
      errno: ENOSYS,
      what: What.request,
      sentence: `Cannot do request ${type}: unknown`,
    });
    expect(refusals).toEqual(unknown.map((type) => [1000 + type, refused(type)]));
  });

  test("an unknown version is refused", async () => {
    using client = await RawClient.open(path());
    for (const payload of [new FrameWriter().u32(2), new FrameWriter(), new FrameWriter().u32(1).u8(0)]) {
      expect(await client.refusal(Type.hello, payload)).toMatchObject({ errno: EPROTO, what: What.request });
    }
  });

  test("payloads of random bytes for every request are refused or do nothing", async () => {
    const random = randomBytes(7);
    const requests = Object.values(Type).filter((type) => type !== Type.shutdown && type !== Type.ping);
    for (const type of requests) {
      using client = await RawClient.open(path());
      for (const length of [0, 1, 3, 40, 5000]) {
        if (!client.closed) client.send(new FrameWriter().raw(random(length)).frame(type, 77));
      }
      client.send(new FrameWriter().frame(Type.ping, 78));
      // FILES and similar requests take over the connection, and end it at the first invalid input
      await eventually("an answer or the end", () => client.closed || client.answers.some(({ id }) => id === 78));
    }
  });

  test("random bytes are refused", async () => {
    const random = randomBytes(whose === "launcher" ? 1 : 2);
    await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        using client = await RawClient.open(path());
        const bytes = random(5 + i * 20);
        // the third byte makes most lengths plausible: the rest is then read as a payload, and answered or waited for
        if (i % 2 === 0) bytes.fill(0, 2, 4);
        client.send(bytes);
        client.close();
      }),
    );
  });

  test("thousands of connections that come and go leave nothing behind", async () => {
    for (let round = 0; round < 30; round++) {
      using clients = new DisposableStack();
      const open = async (_: unknown, i: number) => {
        const client = clients.use(await RawClient.open(path()));
        if (i % 3 === 0) client.send(new FrameWriter().frame(Type.ping, 1));
      };
      await Promise.all(Array.from({ length: 100 }, open));
    }
  });

  test("too many connections at once are refused", async () => {
    using clients = new DisposableStack();
    const all: RawClient[] = [];
    for (let i = 0; i < 1100; i++) all.push(clients.use(await RawClient.open(path())));
    await eventually("the end of some", () => all.filter((client) => client.closed).length >= 76);
    const [first] = all;
    expect((await first?.ask(Type.ping))?.type).toBe(Type.ok);
  });

  test("a client that never reads is cut off, at a bounded cost", async () => {
    const pid = host().pids[whose];
    const before = residentBytes(pid);
    using client = await RawClient.open(path());
    client.stopReading();
    const ping = new FrameWriter().frame(Type.ping, 1);
    await client.flood(Buffer.concat(Array.from({ length: 5000 }, () => ping)));
    // 8 MiB may wait to be sent; the sanitiser keeps freed memory for a while
    expect(residentBytes(pid) - before).toBeLessThan(128 << 20);
  });
});

describe("an agent", () => {
  test.for<[string, Partial<Command>]>([
    ["without a name", { name: "" }],
    ["with a name that is a path", { name: "../../x" }],
    ["with a name that is too long", { name: "x".repeat(65) }],
    ["without a program", { argv: [] }],
  ])("refuses a command %s", async ([, wrong]) => {
    using client = await RawClient.open(host().agent);
    const refusal = await client.refusal(Type.exec, exec({ name: "x", argv: ["true"], ...wrong }));
    const sentence = "Cannot run the command: the request is malformed";
    expect(refusal).toEqual({ errno: EBADMSG, what: What.request, sentence });
  });

  test("refuses a command that is truncated at any byte", async () => {
    using client = await RawClient.open(host().agent);
    const whole = exec({ name: "x", argv: ["true"] })
      .frame(Type.exec, 1)
      .subarray(headerLength);
    const lengths = Array.from({ length: whole.length }, (_, length) => length);
    for (const length of lengths) client.send(new FrameWriter().raw(whole.subarray(0, length)).frame(Type.exec, 2));
    await client.ask(Type.ping);
    const refusals = client.answers.filter(({ id }) => id === 2).map(refusalOf);
    expect(refusals.map(({ errno }) => errno)).toEqual(lengths.map(() => EBADMSG));
  });

  test("refuses an id that was used before, and keeps that command's output", async () => {
    const command = await host().victim.exec({ id: "once", argv: ["echo", "first"], cwd: "/" });
    await command.exited;
    using client = await RawClient.open(host().agent);
    for (const argv of [["echo", "second"], ["/nowhere"]]) {
      expect(await client.refusal(Type.exec, exec({ name: "once", argv }))).toMatchObject({ errno: EEXIST });
    }
    const chunks: Uint8Array[] = [];
    for await (const chunk of command.output()) chunks.push(chunk.data);
    expect(Buffer.concat(chunks).toString()).toBe("first\n");
  });

  test.for([
    ["STDIN", Type.stdin, (w: FrameWriter) => w.bytes(Buffer.from("x"))],
    ["STDIN_CLOSE", Type.stdinClose, (w: FrameWriter) => w],
    ["SIGNAL", Type.signal, (w: FrameWriter) => w.u32(9)],
    ["SPARE", Type.spare, (w: FrameWriter) => w.u64(0)],
    ["RESIZE", Type.resize, (w: FrameWriter) => w.u16(1).u16(1)],
  ] as const)("refuses %s for a command that does not run, and half of such a request", async ([, type, rest]) => {
    using client = await RawClient.open(host().agent);
    const whole = () => rest(new FrameWriter().str("nobody"));
    expect(await client.refusal(type, whole())).toMatchObject({
      errno: ESRCH,
      sentence: "There is no such command running",
    });
    expect(await client.refusal(type, whole().u8(0))).toMatchObject({ errno: EBADMSG, sentence: malformed });
  });

  test("refuses a signal that does not exist, and input without end for a command that does not read", async () => {
    using client = await RawClient.open(host().agent);
    const name = "sleeper";
    expect((await client.ask(Type.exec, exec({ name, argv: ["sleep", "60"], flags: 2 }))).type).toBe(Type.ok);
    const kill = (signal: number) => new FrameWriter().str(name).u32(signal);
    expect(await client.refusal(Type.signal, kill(65))).toMatchObject({ errno: EINVAL });
    expect(await client.refusal(Type.signal, kill(0xffff_ffff))).toMatchObject({ errno: EINVAL });
    // many small pieces cost more than their bytes: the agent keeps each of them
    const piece = new FrameWriter().str(name).bytes(Buffer.alloc(60_000)).frame(Type.stdin, 9);
    const crumb = new FrameWriter().str(name).bytes(Buffer.alloc(1)).frame(Type.stdin, 10);
    client.send(Buffer.concat([piece, piece, ...Array.from({ length: 5000 }, () => crumb)]));
    const full = await eventually("a refusal", () =>
      client.answers.find(({ type, id }) => type === Type.fail && id === 10),
    );
    expect(refusalOf(full).sentence).toBe("Cannot write to the command: it does not read what it was sent");
    expect((await client.ask(Type.signal, kill(9))).type).toBe(Type.ok);
  });

  test("refuses impossible users, ports and file requests", async () => {
    const first = async (type: number, payload: FrameWriter) => {
      using client = await RawClient.open(host().agent);
      return await client.refusal(type, payload);
    };
    const nobody = {
      errno: ENOENT,
      what: What.user,
      sentence: 'Cannot open files as "nobody-here": there is no such user',
    };
    expect(await first(Type.files, new FrameWriter().str("nobody-here"))).toEqual(nobody);
    expect(await first(Type.files, new FrameWriter().raw(Buffer.from("0300000061006200", "hex")))).toMatchObject({
      errno: EBADMSG,
    });
    expect(await first(Type.dial, new FrameWriter().u8(1))).toMatchObject({ errno: EBADMSG });
    expect(await first(Type.dial, new FrameWriter().u16(1))).toMatchObject({
      sentence: expect.stringMatching(/^Cannot connect to port 1: /),
    });
    using session = await RawClient.open(host().agent);
    expect((await session.ask(Type.files, new FrameWriter().str("root"))).type).toBe(Type.ok);
    expect(await session.refusal(Type.whiteout, new FrameWriter().str("/x"))).toMatchObject({ errno: EPERM });
    expect(await session.refusal(Type.exec)).toMatchObject({ errno: ENOSYS });
    expect(await session.refusal(Type.stat)).toMatchObject({ errno: EBADMSG });
    expect(await session.refusal(Type.stat, new FrameWriter().str("relative").u8(1))).toMatchObject({ errno: EINVAL });
    expect((await session.ask(Type.stat, new FrameWriter().str("/").u8(1))).type).toBe(Type.entry);
    session.send(new FrameWriter().str("/tmp/x").u32(0o644).u32(0).u32(0).u32(0).u64(0).frame(Type.write, 2));
    session.send(new FrameWriter().frame(Type.ping, 3));
    await session.untilClosed();
  });
});

const malformed = "Cannot read the request: it is malformed";

interface Command {
  name: string;
  argv: string[];
  /** 1 a terminal, 2 standard input */
  flags?: number;
}

function exec({ name, argv, flags = 0 }: Command): FrameWriter {
  return new FrameWriter()
    .str(name)
    .u32(flags)
    .u16(0)
    .u16(0)
    .u32(0)
    .u64(0)
    .str("")
    .list([])
    .str("/")
    .list(argv)
    .list([]);
}
