/**
 * Answers a sandbox's questions about names, as far as its policy goes. Under allow-all questions go through unread, and
 * so do answers, but for addresses that no sandbox may reach: they would show the host's internal names. Under a policy
 * of its own a name that is not allowed does not exist (NXDOMAIN, rather than REFUSED, which makes programs try again
 * and wait); only records that a program needs to connect are asked for, by a question that we write ourselves, so that
 * nothing but the name leaves; and an answer loses every address that it must not lead to, and every record that would
 * hide the name of the next connection (HTTPS and SVCB, which carry ECH keys).
 */

import { randomInt } from "node:crypto";
import {
  type Answer,
  decode,
  encode,
  type OptAnswer,
  type Packet,
  RECURSION_DESIRED,
  type StringAnswer,
} from "dns-packet";
import { hostName } from "../../core/network/network-policy.ts";
import type { Destination } from "../../protocols/netd-channel.ts";
import type { Allowance } from "../fairness/allowance.ts";
import { type AddressRules, isLoopback } from "../policy/addresses.ts";
import type { Names } from "../policy/names.ts";
import { judgeAddress, judgeQuestion, type Policy, type Verdict } from "../policy/policy.ts";
import { resolve } from "./resolvers.ts";

/** The machine that asks. */
export interface Asker {
  policy(): Policy;
  names: Names;
  /** how much it may still ask, of all types and of those that can carry much */
  questions: Allowance;
  texts: Allowance;
}

export interface QuestionOptions {
  resolvers: () => Destination[];
  addresses: AddressRules;
  signal: AbortSignal;
  /** called with each valid question once it is answered; `failure` is why an allowed one got no answer */
  decided(question: { name: string; type: string }, verdict: Verdict, failure?: string): void;
}

/** records that programs connect by; TXT and SRV are how some databases are found */
const types = ["A", "AAAA", "CNAME", "SRV", "MX", "TXT"];
const carriers = ["TXT", "MX", "SRV"];
/** what an answer over UDP may be long where the program does not say, and in any case (RFC 9715) */
const shortAnswer = 512;
const longAnswer = 1232;

const noSuchName = 3;
const serverFailure = 2;
const notImplemented = 4;

/** the answer to a question as it came; undefined where silence is the answer */
export async function answerQuestion(
  packet: Buffer,
  transport: "udp" | "tcp",
  asker: Asker,
  options: QuestionOptions,
): Promise<Buffer | undefined> {
  const policy = asker.policy();
  if (policy.kind === "open") return passOn(packet, transport, asker, options);
  const question = questionIn(packet);
  if (!question) return undefined;
  if (question.name === undefined) return reply(question, transport, { rcode: notImplemented });
  const { name, type } = question;
  const verdict = judgeQuestion(policy, name, type);
  const decided = (failure?: string) => options.decided({ name, type }, verdict, failure);
  if (!verdict.allowed) {
    decided();
    return reply(question, transport, { rcode: noSuchName, blocked: verdict.reason });
  }
  if (!types.includes(type)) {
    decided(`${type} records are never given`);
    return reply(question, transport, {});
  }
  if (!asker.questions.take() || (carriers.includes(type) && !asker.texts.take())) {
    decided("the sandbox asks too much");
    return reply(question, transport, { rcode: serverFailure, blocked: "it asks too much" });
  }
  const found = await lookUp(name, type, options);
  // The policy may have changed meanwhile.
  if (!found || !judgeQuestion(asker.policy(), name, type).allowed) {
    decided(found ? "the policy has changed meanwhile" : unanswered);
    return reply(question, transport, { rcode: serverFailure });
  }
  const kept = found.answers.filter((answer) => mayBeTold(answer, asker.policy(), options.addresses));
  for (const { name: address, ttl } of addressesIn(kept)) asker.names.remember(name, address, ttl);
  const emptied = kept.length === 0 && found.answers.length > 0;
  decided(emptied ? closedAnswer(found.answers, options.addresses) : failureIn(found.rcode, type, kept));
  const rcode = emptied ? noSuchName : found.rcode;
  return reply(question, transport, {
    rcode,
    answers: kept,
    ...(emptied && { blocked: closedAnswer(found.answers, options.addresses) }),
  });
}

/** what is asked in a packet of which the end may be missing; undefined where it is no plain question */
export function questionAsked(packet: Buffer): { name: string; type: string } | undefined {
  const question = packet.length < 12 ? undefined : questionIn(Buffer.from(packet).fill(0, 6, 12));
  return question?.name === undefined ? undefined : { name: question.name, type: question.type };
}

/** the addresses of a name from the resolvers now, regardless of the policy */
export async function addressesOf(name: string, options: Omit<QuestionOptions, "decided">): Promise<string[]> {
  const found = await Promise.all(["A", "AAAA"].map((type) => lookUp(name, type, options)));
  return found.flatMap((each) => addressesIn(each?.answers ?? []).map(({ name: address }) => address));
}

/**
 * Passes the question on unread, and the answer as it came if it leads only to where a sandbox may go. The answer's names
 * are kept for the log, and for a policy that may come later.
 */
async function passOn(
  packet: Buffer,
  transport: "udp" | "tcp",
  asker: Asker,
  { resolvers, addresses, signal, decided }: QuestionOptions,
): Promise<Buffer | undefined> {
  const question = questionIn(packet);
  const answer = await resolve(packet, { resolvers: resolvers(), transport, signal });
  // A policy has come meanwhile and must decide: without an answer the program asks again.
  if (asker.policy().kind !== "open") return undefined;
  const parsed = answer && parsePacket(answer);
  const sections = [parsed?.answers, parsed?.authorities, parsed?.additionals].flatMap((each) => each ?? []);
  const isClosed = sections.some((record) => !mayBeShown(record, addresses));
  if (question?.name === undefined) {
    if (!isClosed) return answer;
    return question && reply(question, transport, { rcode: notImplemented });
  }
  const { name, type } = question;
  const all = parsed ? chainOf(name, parsed.answers ?? []) : [];
  const said = isClosed ? all.filter((record) => mayBeShown(record, addresses)) : all;
  const rcode = answer && answer.length >= 4 ? answer.readUInt16BE(2) & 15 : undefined;
  // One that was cut short is asked for again, over TCP.
  const cut = answer && answer.length >= 4 && (answer.readUInt16BE(2) & truncated) !== 0;
  const blocked = all.length > said.length && addressesIn(said).length === 0 ? closedAnswer(all, addresses) : undefined;
  const failure = rcode === undefined ? unanswered : cut ? undefined : (blocked ?? failureIn(rcode, type, said));
  decided({ name, type }, judgeQuestion({ kind: "open" }, name, type), failure);
  for (const { name: address, ttl } of addressesIn(said)) asker.names.remember(name, address, ttl);
  if (!isClosed) return answer;
  if (cut) return reply(question, transport, { isCut: true });
  return blocked === undefined
    ? reply(question, transport, { rcode: rcode ?? serverFailure, answers: said })
    : reply(question, transport, { rcode: noSuchName, blocked });
}

/** under allow-all; a name for the sandbox's own loopback, which developers use, says nothing about the host */
function mayBeShown(record: Answer, addresses: AddressRules): boolean {
  return mayBeTold(record, { kind: "open" }, addresses) || (isAddress(record) && isLoopback(record.data));
}

const unanswered = "no resolver answers";

/** why an answer is useless to the program; undefined if it is useful */
function failureIn(rcode: number, type: string, answers: Answer[]): string | undefined {
  if (rcode === noSuchName) return "no such name";
  if (rcode !== 0) return `its resolver fails (${rcodes[rcode] ?? `code ${rcode}`})`;
  return answers.some((answer) => answer.type === type) ? undefined : `it has no ${type} record`;
}

const rcodes: Record<number, string> = { 1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED" };

/** a name without any address that may be reached */
function closedAnswer(answers: Answer[], addresses: AddressRules): string {
  const [first] = addressesIn(answers);
  return first
    ? `it leads to ${first.name}, which is ${addresses.forbidden(first.name) ?? "denied"}`
    : "it leads nowhere";
}

interface Found {
  rcode: number;
  answers: Answer[];
}

async function lookUp(
  name: string,
  type: string,
  { resolvers, signal }: Pick<QuestionOptions, "resolvers" | "signal">,
): Promise<Found | undefined> {
  const ask = async (transport: "udp" | "tcp") => {
    // The library knows more types than its types say; ours are among them.
    const questions = [{ name, type: type as "A" }];
    const question = encode({
      type: "query",
      id: randomInt(0x10000),
      flags: RECURSION_DESIRED,
      questions,
      additionals: [optRecord([])],
    });
    const answer = await resolve(question, { resolvers: resolvers(), transport, signal });
    const parsed = answer && parsePacket(answer);
    const [echoed] = parsed?.questions ?? [];
    const isOurs = echoed && hostName(echoed.name) === name && echoed.type === type;
    return parsed && isOurs
      ? { ...parsed, truncated: (answer.readUInt16BE(2) & 0x0200) !== 0, rcode: answer.readUInt16BE(2) & 15 }
      : undefined;
  };
  const short = await ask("udp");
  const whole = short?.truncated ? await ask("tcp") : short;
  return whole && { rcode: whole.rcode, answers: chainOf(name, whole.answers ?? [], type) };
}

/** what an answer says of a name: the records of the name itself and of those that it is an alias of */
function chainOf(name: string, answers: Answer[], type?: string): Answer[] {
  const names = new Set([name]);
  // An alias may come after the record that it leads to.
  for (let more = true; more; ) {
    const before = names.size;
    for (const answer of answers) {
      if (answer.type === "CNAME" && names.has(lower(answer.name))) names.add(lower(answer.data));
    }
    more = names.size > before;
  }
  return answers.filter((answer) => {
    const wanted = type === undefined || answer.type === type || answer.type === "CNAME";
    return wanted && names.has(lower(answer.name));
  });
}

function addressesIn(answers: Answer[]): { name: string; ttl: number }[] {
  return answers.flatMap((answer) => (isAddress(answer) ? [{ name: answer.data, ttl: answer.ttl ?? 0 }] : []));
}

function isAddress(answer: Answer): answer is StringAnswer {
  return answer.type === "A" || answer.type === "AAAA";
}

/** a name must not lead to where no name may: to private addresses, or to the host (rebinding) */
function mayBeTold(answer: Answer, policy: Policy, addresses: AddressRules): boolean {
  if (!isAddress(answer)) return true;
  const attempt = { protocol: "tcp" as const, address: answer.data, port: 443 };
  const verdict = judgeAddress(policy, attempt, addresses);
  // An address in a denied range stays in the answer, and is refused with the reason when it is used.
  return verdict === undefined || verdict.allowed || addresses.forbidden(answer.data) === undefined;
}

interface Question {
  id: number;
  flags: number;
  /** undefined for kinds of questions that no program needs */
  name: string | undefined;
  /** as it was asked, for the answer to repeat */
  asked: Packet["questions"];
  type: string;
  /** what the program takes over UDP; undefined where it knows no extensions */
  room: number | undefined;
}

/** records of all kinds in a question; names in them may be long chains of references, so more would cost a lot to read */
const mostRecords = 8;

function questionIn(packet: Buffer): Question | undefined {
  if (packet.length < 12) return undefined;
  const records = [4, 6, 8, 10].reduce((sum, at) => sum + packet.readUInt16BE(at), 0);
  const parsed = records <= mostRecords ? parsePacket(packet) : undefined;
  if (parsed?.type !== "query" || parsed.id === undefined) return undefined;
  const flags = packet.readUInt16BE(2);
  const [asked, ...rest] = parsed.questions ?? [];
  const plain = asked && rest.length === 0 && (flags & 0x7800) === 0 && asked.class === "IN";
  const option = (parsed.additionals ?? []).find((answer) => answer.type === "OPT");
  return {
    id: parsed.id,
    flags: flags & RECURSION_DESIRED,
    name: plain ? hostName(asked.name) : undefined,
    asked: parsed.questions,
    type: asked?.type ?? "",
    room: option?.type === "OPT" ? option.udpPayloadSize : undefined,
  };
}

const recursionAvailable = 0x0080;
const truncated = 0x0200;
/** RFC 8914: an option (15) that says why, of which 15 is "blocked" */
const whyOption = 15;
const blockedCode = 15;

interface Reply {
  rcode?: number;
  answers?: Answer[];
  /** why, to a program that reads extended errors */
  blocked?: string;
  /** whether it has to be asked for again over TCP, however short it is */
  isCut?: boolean;
}

function reply(
  question: Question,
  transport: "udp" | "tcp",
  { rcode = 0, answers = [], blocked, isCut = false }: Reply,
): Buffer {
  const why =
    blocked === undefined
      ? []
      : [{ code: whyOption, data: Buffer.from(`\0${String.fromCharCode(blockedCode)}${blocked}`) }];
  const additionals: OptAnswer[] = question.room === undefined ? [] : [optRecord(why as OptAnswer["options"])];
  const write = (flags: number, records: Answer[]) =>
    encode({
      type: "response",
      id: question.id,
      flags: question.flags | recursionAvailable | flags,
      questions: question.asked ?? [],
      answers: records,
      additionals,
    });
  const whole = write(rcode, answers);
  const room = Math.min(Math.max(question.room ?? shortAnswer, shortAnswer), longAnswer);
  return !isCut && (transport === "tcp" || whole.length <= room) ? whole : write(rcode | truncated, []);
}

function parsePacket(packet: Buffer): ReturnType<typeof decode> | undefined {
  try {
    return decode(packet);
  } catch {
    return undefined;
  }
}

/** by which a message says how long an answer may be, and more (RFC 6891) */
function optRecord(options: OptAnswer["options"]): OptAnswer {
  return {
    type: "OPT",
    name: ".",
    udpPayloadSize: longAnswer,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options,
  };
}

function lower(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}
