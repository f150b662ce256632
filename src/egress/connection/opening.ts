/**
 * Finds out what a program begins to speak on a connection, from its first bytes and before anything is sent outside:
 * TLS, with the name it asks for; TLS after PostgreSQL's request for it; plain HTTP; or something else.
 */

import type { Socket } from "node:net";
import { isTls, readHello } from "./hello.ts";

export type Opening = { head: Buffer } & (
  | { kind: "tls"; postgres: boolean; name?: string }
  | { kind: "http"; method: string; path: string; host?: string }
  /** nothing we know, or TLS that we do not understand */
  | { kind: "other"; why: string }
  | { kind: "closed" }
);

/** what PostgreSQL's clients ask before TLS and before Kerberos: a length of 8 and a code */
export const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const gssRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30]);

/** how long a program may be silent before it is taken for one that waits for the server to speak first, in ms */
const silence = 10_000;
const longestRequest = 16 << 10;
/** number of reads for a program that sends its first bytes in small pieces */
const mostLooks = 256;
const httpStart = /^[A-Z]{1,16}( |$)/;
const requestLine = /^([A-Z]+) (\S+) HTTP\/\d(?:\.\d)?\r?(?:\n|$)/;

/**
 * Reads until it is clear what it is. The socket is paused afterwards and has no listener of ours; `head` is
 * everything that was read and not answered.
 */
export function readOpening(inside: Socket, signal: AbortSignal, patience = silence): Promise<Opening> {
  return new Promise((resolve) => {
    let chunks: Buffer[] = [];
    let length = 0;
    let needed = 1;
    let postgres = false;
    let looks = 0;
    const head = () => {
      const all = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
      chunks = [all];
      return all;
    };
    const done = (opening: Opening) => {
      clearTimeout(timer);
      inside.pause();
      inside.off("data", received).off("end", ended).off("close", ended).off("error", ignore);
      signal.removeEventListener("abort", ended);
      resolve(opening);
    };
    const ended = () => done({ kind: "closed", head: head() });
    const look = () => {
      const bytes = head();
      if (++looks > mostLooks)
        return done({ kind: "other", why: "it takes too long to say what it wants", head: bytes });
      if (!postgres && bytes.equals(gssRequest)) return answer("N");
      if (!postgres && bytes.equals(sslRequest)) {
        postgres = true;
        return answer("S");
      }
      const found = openingIn(bytes, postgres);
      if (typeof found === "number") needed = found;
      else done(found);
    };
    const answer = (letter: string) => {
      chunks = [];
      length = 0;
      needed = 1;
      inside.write(letter);
    };
    const received = (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= needed) look();
    };
    const timer = setTimeout(() => done({ kind: "other", why: "it says nothing", head: head() }), patience);
    inside.on("data", received).on("end", ended).on("close", ended).on("error", ignore);
    signal.addEventListener("abort", ended, { once: true });
    if (signal.aborted || inside.destroyed) ended();
    else inside.resume();
  });
}

/** what the bytes begin, or how many it takes to know */
export function openingIn(head: Buffer, postgres: boolean): Opening | number {
  if (isTls(head)) {
    const hello = readHello(head);
    if (hello.state === "partial") return hello.needed;
    if (hello.state === "invalid") return { kind: "other", why: hello.why, head };
    return { kind: "tls", postgres, head, ...(hello.name !== undefined && { name: hello.name }) };
  }
  if (!postgres && head.length < 8 && sslRequest.subarray(0, head.length).equals(head)) return 8;
  if (!postgres && head.length < 8 && gssRequest.subarray(0, head.length).equals(head)) return 8;
  const text = head.subarray(0, longestRequest).toString("latin1");
  if (postgres || !httpStart.test(text.slice(0, 17))) return { kind: "other", why: "it is neither TLS nor HTTP", head };
  if (text.includes("\n") && !requestLine.test(text)) return { kind: "other", why: "it is neither TLS nor HTTP", head };
  const end = text.search(/\r?\n\r?\n/);
  if (end < 0 && head.length < longestRequest) return head.length + 1;
  return httpIn(end < 0 ? text : text.slice(0, end), head);
}

function httpIn(text: string, head: Buffer): Opening {
  const [, method, target] = requestLine.exec(text) ?? [];
  if (method === undefined || target === undefined) return { kind: "other", why: "it is neither TLS nor HTTP", head };
  const host = /^host:[ \t]*(\S+)/im.exec(text.slice(text.indexOf("\n") + 1))?.[1];
  return { kind: "http", method, path: target.split("?")[0] ?? target, head, ...(host !== undefined && { host }) };
}

function ignore(): void {}
