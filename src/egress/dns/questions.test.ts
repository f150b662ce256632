/** Questions about names under a policy, against a resolver that answers whatever a test wants. */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type Answer, decode, encode, type Packet } from "dns-packet";
import { describe, expect, onTestFinished, test } from "vitest";
import type { CustomPolicy } from "../../core/network/network-policy.ts";
import { addressRules } from "../policy/addresses.ts";
import { newNames } from "../policy/names.ts";
import { customPolicy, type Policy, type Verdict } from "../policy/policy.ts";
import { type Asker, answerQuestion, type QuestionOptions } from "./questions.ts";

const addresses = addressRules({ allow: [], hostAddresses: () => ["93.184.217.2"] });
const plenty = { take: () => true };

test("an allowed name is answered, and what it led to is remembered", async () => {
  const { ask, asker, asked } = await under({ domains: ["*.test"] }, ({ name }) => [a(name, "93.184.216.34")]);
  const answer = await ask("Web.Test");
  expect(answer).toMatchObject({ type: "response", id: 7, rcode: "NOERROR", answers: [{ data: "93.184.216.34" }] });
  expect(answer?.questions?.[0]?.name).toBe("Web.Test");
  expect(asked.map(({ questions }) => questions?.[0]?.name)).toEqual(["web.test"]);
  expect(asker.names.has("web.test", "93.184.216.34")).toBe(true);
});

test("another name does not exist, and the answer says why to whoever can read it", async () => {
  const { ask, asked, verdicts } = await under({ domains: ["web.test"] }, () => []);
  const answer = await ask("secret.evil.test", "A", 1232);
  expect(answer?.rcode).toBe("NXDOMAIN");
  const option = answer?.additionals?.[0];
  const data = option?.type === "OPT" ? Buffer.from((option.options[0] as { data: Buffer }).data) : undefined;
  expect(data?.subarray(2).toString()).toBe('the policy does not allow "secret.evil.test"');
  expect(data?.readUInt16BE(0)).toBe(15);
  expect(asked).toEqual([]);
  expect(verdicts).toMatchObject([{ allowed: false, missing: { allow: ["secret.evil.test"] } }]);
});

test("records of other names, and of no use, are left out", async () => {
  const { ask, asker } = await under({ domains: ["web.test"] }, ({ name }) => [
    { type: "CNAME", name, data: "Alias.test", ttl: 1 },
    a("alias.test", "93.184.216.34"),
    a("bank.test", "93.184.216.66"),
    { type: "TXT", name, data: "more" },
  ]);
  const answer = await ask("web.test");
  expect(answer?.answers?.map(({ type, name }) => `${type} ${name}`)).toEqual(["CNAME web.test", "A alias.test"]);
  expect(asker.names.has("web.test", "93.184.216.34")).toBe(true);
  expect(asker.names.has("web.test", "93.184.216.66")).toBe(false);
  expect(asker.names.has("bank.test", "93.184.216.66")).toBe(false);
});

test("a question with many records is not read at all: their names can be made to cost the time of all others", async () => {
  const { asker, options, asked, verdicts } = await under({ domains: ["web.test"] }, () => []);
  const questions = [{ type: "A" as const, name: "web.test" }];
  const packet = encode({ type: "query", id: 7, questions, additionals: Array.from({ length: 9 }, () => opt(1232)) });
  expect(await answerQuestion(packet, "tcp", asker, options)).toBeUndefined();
  expect(await answerQuestion(packet.subarray(0, 11), "tcp", asker, options)).toBeUndefined();
  expect([asked, verdicts]).toEqual([[], []]);
});

test("addresses that no name may lead to are left out, and a name of nothing else does not exist", async () => {
  const all = ["10.0.0.1", "127.0.0.1", "169.254.169.254", "93.184.217.2", "0.0.0.0", "198.18.0.1"];
  const { ask } = await under({ domains: ["*"] }, ({ name }) => [
    ...all.map((address) => a(name, address)),
    ...(name === "mixed.test" ? [a(name, "93.184.216.34")] : []),
  ]);
  expect((await ask("mixed.test"))?.answers).toMatchObject([{ data: "93.184.216.34" }]);
  expect(await ask("private.test")).toMatchObject({ rcode: "NXDOMAIN", answers: [] });
});

test("a private address that the operator opens may be led to, and no other, whatever subnets a policy names", async () => {
  const { ask, options, failures } = await under({ allowedCidrs: ["10.0.0.0/8"] }, ({ name }) => [
    a(name, "10.0.0.1"),
    a(name, "192.168.0.1"),
  ]);
  expect((await ask("db.internal"))?.answers).toEqual([]);
  options.addresses = addressRules({ allow: ["10.0.0.0/8"], hostAddresses: () => [] });
  expect((await ask("db.internal"))?.answers).toMatchObject([{ data: "10.0.0.1" }]);
  const why = "it leads to 10.0.0.1, which is private (SANDKEEP_EGRESS_ALLOW=10.0.0.1/32 would open it)";
  expect(failures).toEqual([why, undefined]);
});

describe("under allow-all", () => {
  const policy: Policy = { kind: "open" };

  test("an answer that leads only to where a sandbox may go is passed on as it came", async () => {
    const changes = { policy, additionals: [opt(4096), { type: "TXT", name: "more.test", data: "kept" } as Answer] };
    const { ask } = await under({}, ({ name }) => [a(name, "93.184.216.34"), a(name, "127.0.0.1")], changes);
    const answer = await ask("web.test");
    expect(answer?.answers).toMatchObject([{ data: "93.184.216.34" }, { data: "127.0.0.1" }]);
    expect(answer?.additionals).toHaveLength(2);
  });

  test("addresses that no sandbox may reach are left out, and a name of nothing else does not exist", async () => {
    const closed = ["10.0.0.1", "169.254.169.254", "93.184.217.2", "0.0.0.0", "198.18.0.1"];
    const { ask, asker, failures } = await under(
      {},
      ({ name }) => [
        ...closed.map((address) => a(name, address)),
        ...(name === "mixed.test" ? [a(name, "93.184.216.34")] : []),
      ],
      { policy },
    );
    expect((await ask("mixed.test"))?.answers).toMatchObject([{ data: "93.184.216.34" }]);
    expect(await ask("private.test")).toMatchObject({ id: 7, rcode: "NXDOMAIN", answers: [] });
    expect(asker.names.has("private.test", "10.0.0.1")).toBe(false);
    const why = "it leads to 10.0.0.1, which is private (SANDKEEP_EGRESS_ALLOW=10.0.0.1/32 would open it)";
    expect(failures).toEqual([undefined, why]);
  });

  test("a private address that the operator opens is shown", async () => {
    const { ask, options } = await under({}, ({ name }) => [a(name, "10.0.0.1"), a(name, "192.168.0.1")], { policy });
    options.addresses = addressRules({ allow: ["10.0.0.0/8"], hostAddresses: () => [] });
    expect((await ask("db.internal"))?.answers).toMatchObject([{ data: "10.0.0.1" }]);
  });

  test.each(["authorities", "additionals"])(
    "private addresses in the %s of an answer are left out",
    async (section) => {
      const changes = { policy, [section]: [a("ns.internal", "10.0.0.53")] };
      const { ask } = await under({}, ({ name }) => [a(name, "93.184.216.34")], changes);
      expect(await ask("web.test")).toMatchObject({ answers: [{ data: "93.184.216.34" }], [section]: [] });
    },
  );

  test("an answer that was cut short is still asked for again", async () => {
    const { ask } = await under({}, ({ name }) => [a(name, "10.0.0.1")], { policy, rcode: 0x0200 });
    expect(await ask("web.test")).toMatchObject({ flag_tc: true, answers: [] });
  });
});

test.each<[what: string, policy: Policy | undefined, answers: Answer[], rcode: number, failure: string | undefined]>([
  ["a name that resolves", undefined, [a("web.test", "93.184.216.34")], 0, undefined],
  ["a name that nobody knows", undefined, [], 3, "no such name"],
  ["a name without such a record", undefined, [], 0, "it has no A record"],
  ["a resolver that fails", undefined, [], 2, "its resolver fails (SERVFAIL)"],
  ["a name that resolves, under allow-all", { kind: "open" }, [a("web.test", "93.184.216.34")], 0, undefined],
  ["a name that nobody knows, under allow-all", { kind: "open" }, [], 3, "no such name"],
  ["a name without such a record, under allow-all", { kind: "open" }, [], 0, "it has no A record"],
])("%s is told as what it is", async (_, policy, answers, rcode, failure) => {
  const { ask, failures } = await under({ domains: ["web.test"] }, () => answers, { rcode, ...(policy && { policy }) });
  await ask("web.test");
  expect(failures).toEqual([failure]);
});

test("a service of an allowed host may be asked for", async () => {
  const srv: Answer = { type: "SRV", name: "_mongodb._tcp.db.test", data: { port: 27_017, target: "one.db.test" } };
  const { ask } = await under({ domains: ["db.test"] }, () => [srv]);
  expect((await ask("_mongodb._tcp.db.test", "SRV"))?.answers).toMatchObject([{ data: { target: "one.db.test" } }]);
  expect((await ask("_mongodb._tcp.db.test", "A"))?.rcode).toBe("NXDOMAIN");
  expect((await ask("_a._b._tcp.db.test", "SRV"))?.rcode).toBe("NXDOMAIN");
});

test("an answer that is too long for a datagram says so", async () => {
  const { ask } = await under({ domains: ["*"] }, ({ name }) =>
    Array.from({ length: 40 }, (_, i) => a(name, `93.184.216.${i}`)),
  );
  expect(await ask("long.test")).toMatchObject({ flag_tc: true, answers: [] });
  expect((await ask("long.test", "A", 1232))?.answers).toHaveLength(40);
  expect((await ask("long.test", "A", undefined, "tcp"))?.answers).toHaveLength(40);
});

test("an answer to another question is none", async () => {
  const { ask } = await under({ domains: ["*"] }, () => [], { questions: [{ type: "A", name: "evil.test" }] });
  expect((await ask("web.test"))?.rcode).toBe("SERVFAIL");
});

test("whoever asks too much is told to wait", async () => {
  let left = 2;
  const { ask } = await under(
    { domains: ["*"] },
    ({ name }) => [a(name, "93.184.216.34")],
    {},
    { take: () => left-- > 0 },
  );
  expect([(await ask("a.test"))?.rcode, (await ask("b.test"))?.rcode, (await ask("c.test"))?.rcode]).toEqual([
    "NOERROR",
    "NOERROR",
    "SERVFAIL",
  ]);
});

test("a policy that changed while the world was asked counts", async () => {
  const policies: Policy[] = [policyOf({ domains: ["web.test"] }), policyOf({ domains: ["other.test"] })];
  const { ask, asker } = await under({ domains: ["web.test"] }, ({ name }) => [a(name, "93.184.216.34")]);
  asker.policy = () => policies.shift() ?? policyOf({ domains: ["other.test"] });
  expect((await ask("web.test"))?.rcode).toBe("SERVFAIL");
});

test("whatever the bytes, nobody is asked for a name that is not allowed", async () => {
  const { asker, options, asked } = await under({ domains: ["web.test"] }, ({ name }) => [a(name, "93.184.216.34")]);
  const valid = encode({
    type: "query",
    id: 7,
    questions: [{ type: "A", name: "web.test" }],
    additionals: [opt(1232)],
  });
  let seed = 1;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (seed >> 8) % below;
  };
  for (let round = 0; round < 3000; round++) {
    const bytes = Buffer.from(valid.subarray(0, random(4) === 0 ? random(valid.length) : valid.length));
    for (let changes = random(5); changes > 0 && bytes.length > 0; changes--) bytes[random(bytes.length)] = random(256);
    await answerQuestion(bytes, "udp", asker, options).catch(() => undefined);
  }
  expect(new Set(asked.map(({ questions }) => questions?.[0]?.name))).toEqual(new Set(["web.test"]));
});

type Lists = Partial<Pick<CustomPolicy, "allowedCidrs">> & { domains?: string[] };

function policyOf({ domains = [], allowedCidrs = [] }: Lists): Policy {
  const all = domains.map((domain) => ({ domain, rules: [] }));
  return customPolicy({ mode: "custom", domains: all, allowedCidrs, deniedCidrs: [] });
}

/** a resolver that gives these answers, and a sandbox that asks it */
async function under(
  lists: Lists,
  answers: (question: { name: string; type: string }) => Answer[],
  { rcode = 0, policy: given, ...changes }: Partial<Packet> & { rcode?: number; policy?: Policy } = {},
  questions = plenty,
) {
  const asked: Packet[] = [];
  const socket = createSocket("udp4", (message, from) => {
    const packet = decode(message);
    asked.push(packet);
    const [question = { name: "", type: "A" }] = packet.questions ?? [];
    const answer = {
      ...packet,
      type: "response" as const,
      answers: answers(question),
      additionals: [],
      flags: rcode,
      ...changes,
    };
    socket.send(encode(answer), from.port, from.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  const failures: (string | undefined)[] = [];
  const policy = given ?? policyOf(lists);
  const asker: Asker = { policy: () => policy, names: newNames(() => 0), questions, texts: plenty };
  const verdicts: Verdict[] = [];
  const options: QuestionOptions = {
    resolvers: () => [{ address: "127.0.0.1", port: socket.address().port }],
    addresses,
    signal: new AbortController().signal,
    decided(_, verdict, failure) {
      verdicts.push(verdict);
      failures.push(failure);
    },
  };
  const ask = async (name: string, type = "A", room?: number, transport: "udp" | "tcp" = "udp") => {
    const additionals = room === undefined ? [] : [opt(room)];
    const packet = encode({
      type: "query",
      id: 7,
      flags: 0x0100,
      questions: [{ type: type as "A", name }],
      additionals,
    });
    const answer = await answerQuestion(packet, transport, asker, options);
    // The decoder says more than its types do.
    return answer && (decode(answer) as ReturnType<typeof decode> & { rcode: string });
  };
  return { ask, asker, asked, verdicts, failures, options };
}

function a(name: string, data: string): Answer {
  return { type: "A", name, data, ttl: 60 };
}

function opt(udpPayloadSize: number): Answer {
  return {
    type: "OPT",
    name: ".",
    udpPayloadSize,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  };
}
