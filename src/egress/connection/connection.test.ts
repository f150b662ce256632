/** A connection whose policy changes while it is still being decided about, and one of too many. */

import { connect, createServer, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import type { DomainRule, RequestRule } from "../../core/network/network-policy.ts";
import { noEgressSettings } from "../../core/ports/egress-settings.ts";
import { newTurns } from "../fairness/turns.ts";
import { certificateOf, deriveAuthority, openAuthority } from "../intercept/authority.ts";
import type { EgressEvent } from "../log/log.ts";
import type { Machine } from "../machines.ts";
import { newNames } from "../policy/names.ts";
import { customPolicy } from "../policy/policy.ts";
import { newRuledAddresses } from "../policy/ruled-addresses.ts";
import { newSettings } from "../settings.ts";
import { serveConnection } from "./connection.ts";

const rules: RequestRule[] = [{ action: { kind: "respond", status: 200, body: "old" } }];
const authority = deriveAuthority(Buffer.alloc(32), "sandbox");
const address = "127.0.0.1";

test("a machine has so many connections to hosts with rules, and no more", async () => {
  const inject: RequestRule = { action: { kind: "set-headers", headers: { a: "b" } } };
  const { program, machine } = await begun([{ domain: "web.test", rules: [inject] }]);
  machine.outside = 1024;
  const client = connectTls({ socket: program, servername: "web.test", ca: certificateOf(authority) });
  client.write("GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
  expect(Buffer.concat(await client.toArray()).toString()).toContain(
    'Cannot reach "web.test": the sandbox has 1024 connections open to hosts with rules already',
  );
});

test.each([
  ["denies it", []],
  ["has other rules for it", [{ domain: "web.test", rules: [{ action: { kind: "respond" as const, status: 403 } }] }]],
])("a policy that %s is in force though the connection's authority took its time", async (_, domains) => {
  const asked = Promise.withResolvers<void>();
  const changed = Promise.withResolvers<void>();
  const { program, events, served, change } = await begun([{ domain: "web.test", rules }], async () => {
    asked.resolve();
    await changed.promise;
  });
  const client = connectTls({ socket: program, servername: "web.test", ca: certificateOf(authority) });
  const outcome = new Promise((resolve) => {
    client.once("secureConnect", () => resolve("opened"));
    client.once("error", () => resolve("cut off"));
  });
  await asked.promise;
  change(domains);
  changed.resolve();
  expect(await outcome).toBe("cut off");
  await served;
  expect(events).toMatchObject([{ allowed: false, sni: "web.test" }]);
});

test.each([
  ["says goodbye", (program: Socket) => void program.end()],
  ["vanishes", (program: Socket) => void program.resetAndDestroy()],
])("a program that %s while its TLS waits to be opened leaves nothing behind", async (_, leave) => {
  const { program, machine, served } = await begun([{ domain: "web.test", rules }]);
  const turn = Promise.withResolvers<void>();
  const asked = new Promise<void>((resolve) => {
    machine.share.turn = () => {
      resolve();
      return turn.promise;
    };
  });
  const client = connectTls({ socket: program, servername: "web.test", ca: certificateOf(authority) });
  client.on("error", () => undefined);
  await asked;
  leave(program);
  await new Promise((resolve) => setImmediate(resolve));
  turn.resolve();
  await served;
  expect(machine.open.size).toBe(0);
});

test("the name in a TLS hello that comes in pieces is in the log, where an address is allowed", async () => {
  const upstream = createServer();
  onTestFinished(() => void upstream.close());
  await new Promise<void>((resolve) => upstream.listen(0, address, resolve));
  let received = 0;
  upstream.on("connection", (socket) => {
    socket
      .on("error", () => undefined)
      .on("data", (chunk) => {
        received += chunk.length;
      });
  });
  const listening = upstream.address();
  const port = typeof listening === "object" && listening ? listening.port : 0;
  const { program, events } = await begun([], undefined, { port, allowedCidrs: [`${address}/32`] });
  const hello = await helloFor("web.test");
  for (const end of [100, hello.length]) {
    program.write(hello.subarray(received, end));
    await eventually("it has arrived", () => received === end);
  }
  expect(events).toMatchObject([{ allowed: true, sni: "web.test" }]);
});

/** what a program says first that wants TLS with a host */
async function helloFor(servername: string): Promise<Buffer> {
  const [program, inside] = await pair();
  connectTls({ socket: program, servername }).on("error", () => undefined);
  inside.on("error", () => undefined).resume();
  return new Promise((resolve) => inside.once("data", resolve));
}

/** a connection of a program under a policy; `authorityIsNeeded` may make it wait */
async function begun(
  domains: DomainRule[],
  authorityIsNeeded = async () => {},
  { port = 443, allowedCidrs = [] }: { port?: number; allowedCidrs?: string[] } = {},
) {
  const network = { mode: "custom" as const, allowedCidrs, deniedCidrs: [], authority };
  let policy = customPolicy({ ...network, domains });
  const machine: Machine = {
    name: "m",
    policy: () => policy,
    names: newNames(() => 0),
    ruled: newRuledAddresses(() => 0),
    questions: { take: () => true },
    texts: { take: () => true },
    open: new Set(),
    outside: 0,
    share: newTurns(() => performance.now()).share(),
    costlyFrames: { take: () => true },
    signal: new AbortController().signal,
    ready: async () => {},
    authority: async () => {
      await authorityIsNeeded();
      return openAuthority(authority);
    },
  };
  machine.names.remember("web.test", address, 60);
  const events: EgressEvent[] = [];
  const log = {
    decided: (event: EgressEvent) => void events.push(event),
    ended: () => {},
    moved: () => {},
    unseen: () => {},
    flush: async () => {},
  };
  const [program, inside] = await pair();
  const served = serveConnection(inside, { address, port }, machine, {
    settings: newSettings({ ...noEgressSettings, allow: ["127.0.0.1/32"] }, () => 0),
    log,
    search: { actor: Promise.resolve({}), seen: Promise.resolve() },
  });
  const change = (to: DomainRule[]) => {
    policy = customPolicy({ ...network, domains: to });
  };
  return { program, machine, events, served, change };
}

/** the two ends of a connection, of which the second is as netd hands it over */
async function pair(): Promise<[Socket, Socket]> {
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
  const listening = server.address();
  const program = connect(typeof listening === "object" && listening ? listening.port : 0, address);
  const inside = await accepted;
  onTestFinished(() => {
    program.destroy();
    inside.destroy();
  });
  return [program, inside];
}
