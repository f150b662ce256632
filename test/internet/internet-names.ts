/** The addresses, names and bytes of test/internet/internet.ts, for its servers and for the tests that talk to them. */

import { createHash } from "node:crypto";

export const webAddress = "93.184.216.34";
export const webAddress6 = "2606:2800:220:1::1";
/** addresses of another web server, and of one that no policy of a test allows */
export const otherAddress = "93.184.216.35";
export const otherAddress6 = "2606:2800:220:1::2";
export const evilAddress = "93.184.216.66";
/** the address of the servers of test/internet/model-servers.ts */
export const modelAddress = "93.184.216.80";
export const nameServer = "93.184.216.53";
/** the host's own public addresses, at its end of the wire */
export const hostAddress = "93.184.217.2";
export const hostAddress6 = "2606:2800:221::2";
/** addresses that the internet has and answers on, but that no sandbox may reach */
export const forbiddenAddresses = ["10.9.9.9", "192.168.7.7", "100.64.3.3", "169.254.169.254"];
export const forbiddenAddresses6 = ["fd00:ec2::254", "fd12::1"];

interface NameRecord {
  a?: string[];
  aaaa?: string[];
  /** the name that it is an alias of */
  alias?: string;
  txt?: string;
  /** over UDP the answer says "ask again over TCP" */
  truncated?: boolean;
  /** the other transport gives no answer */
  only?: "udp" | "tcp";
}

/** the names that the internet's name server knows; one that begins with "*." stands for all below it */
export const nameRecords: Record<string, NameRecord> = {
  "web.test": { a: [webAddress], aaaa: [webAddress6], txt: "hello" },
  "web6.test": { aaaa: [webAddress6] },
  "long.test": { a: Array.from({ length: 60 }, (_, i) => `93.184.216.${i + 100}`), truncated: true },
  "tcp-only.test": { a: [webAddress], only: "tcp" },
  "metadata.test": { a: ["169.254.169.254"] },
  "private.test": { a: ["10.9.9.9"], aaaa: ["fd12::1"] },
  "host.test": { a: [hostAddress], aaaa: [hostAddress6] },
  "mixed.test": { a: ["10.9.9.9", webAddress, hostAddress], aaaa: [webAddress6, "::1", "fd12::1"] },
  "alias.test": { alias: "web.test" },
  "other.test": { a: [otherAddress], aaaa: [otherAddress6] },
  "*.other.test": { a: [otherAddress], aaaa: [otherAddress6] },
  "www.shop.test": { a: [otherAddress] },
  "www.far.shop.test": { a: [otherAddress] },
  "evil.test": { a: [evilAddress], txt: "stolen" },
  "*.evil.test": { a: [evilAddress], txt: "stolen" },
  "api.anthropic.com": { a: [modelAddress] },
  "api.openai.com": { a: [modelAddress] },
  "registry.npmjs.org": { a: [modelAddress] },
};

/** the length of the blocks below, in bytes */
export const blockLength = 65_536;

/** the blocks that the internet's source of bytes sends: no two are alike */
export function blockAt(index: number): Buffer {
  const number = Buffer.alloc(4);
  number.writeUInt32BE(index);
  return Buffer.alloc(blockLength, createHash("sha256").update(number).digest());
}
