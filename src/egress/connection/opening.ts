/**
 * Finds out what a program begins to speak on a connection, from its first bytes and before anything is sent outside:
 * TLS, with the name it asks for; TLS after PostgreSQL's request for it; plain HTTP; or something else.
 */

import type { Socket } from "node:net";
import { isTls, readHello } from "./hello.ts";

export type Opening = { head: Buffer } & (
  | { kind: "tls"; postgres: boolean; name?: string }
  /** `host` is what its Host header says; `hosts` are all that it may be for, some with a port */
  | { kind: "http"; method: string; path: string; host?: string; hosts: string[] }
  /** nothing we know, or TLS that we do not understand */
  | { kind: "other"; why: string; isSsh?: boolean }
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
/** empty lines before a request, which servers skip (RFC 9112, 2.2) */
const emptyLines = /^[\r\n]+/;
const sshStart = "SSH-2.0-";
/** a whole line, in which there is no request; RFC 4253 says how long it may be */
const sshLine = /^SSH-2\.0-(?![^\n]*HTTP\/)[^\n]{1,246}\n/i;
const longestSshLine = 255;
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
  const text = head.subarray(0, longestRequest).toString("latin1").replace(emptyLines, "");
  if (!postgres && text === "" && head.length < longestRequest) return head.length + 1;
  if (!postgres && text.startsWith(sshStart)) {
    if (!text.includes("\n") && text.length < longestSshLine) return head.length + 1;
    return { kind: "other", why: "it is neither TLS nor HTTP", isSsh: sshLine.test(text), head };
  }
  if (postgres || !httpStart.test(text.slice(0, 17))) return { kind: "other", why: "it is neither TLS nor HTTP", head };
  if (text.includes("\n") && !requestLine.test(text)) return { kind: "other", why: "it is neither TLS nor HTTP", head };
  const end = text.search(/\r?\n\r?\n/);
  if (end < 0 && head.length < longestRequest) return head.length + 1;
  return httpIn(end < 0 ? text : text.slice(0, end), head);
}

function httpIn(text: string, head: Buffer): Opening {
  const [, method, target] = requestLine.exec(text) ?? [];
  if (method === undefined || target === undefined) return { kind: "other", why: "it is neither TLS nor HTTP", head };
  const headers = text.slice(text.indexOf("\n") + 1);
  const named = [...headers.matchAll(/^host[ \t]*:[ \t]*(\S+)/gim)].map(([, host = ""]) => host);
  const [host] = named;
  const path = target.split("?")[0] ?? target;
  const hosts = [...named, ...hostIn(method, target)];
  return { kind: "http", method, path, head, hosts, ...(host !== undefined && { host }) };
}

/** the host in the target of a request, which counts before its Host header (RFC 9112, 3.2.2) */
function hostIn(method: string, target: string): string[] {
  const authority = method === "CONNECT" ? target : /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(target)?.[1];
  return authority ? [authority.slice(authority.lastIndexOf("@") + 1)] : [];
}

function ignore(): void {}
