/** Attacks of a hostile sandbox on the egress process: programs for Node, each of which prints its progress. */

import { frame } from "../test/harness/network/http2-frame.ts";
import { otherAddress } from "../test/internet/internet-names.ts";

export interface Flood {
  name: string;
  /** policy of its sandbox: other.test by name and www.other.test with rules, or everything */
  policy: "with rules" | "allow-all";
  script: string;
}

/** the common part of all programs */
const prelude = `
const dgram = require("node:dgram"), http2 = require("node:http2"), net = require("node:net"), tls = require("node:tls");
const { Worker } = require("node:worker_threads");
const address = "${otherAddress}", opened = "www.other.test";
let done = 0, failed = 0;
process.on("uncaughtException", () => failed++);
setInterval(() => console.log(done + " done, " + failed + " failed"), 200);
/** so many at a time, each again when it is over */
const forever = (many, one) => {
  for (let i = 0; i < many; i++) { const again = () => one(() => { done++; setImmediate(again); }); again(); }
};
const over = (what, next) => what.on("error", () => failed++).on("close", next);
const secure = (servername, ALPNProtocols) =>
  tls.connect({ host: address, port: 443, servername, ALPNProtocols, rejectUnauthorized: false });
${frame.toString()}
const preface = Buffer.concat([Buffer.from("PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"), frame(4, 0, 0, Buffer.alloc(0))]);
const request = Buffer.concat([Buffer.from([0x82, 0x87, 0x84, 0x41, opened.length]), Buffer.from(opened)]);
`;

export const floods: readonly Flood[] = [
  flood(
    "it computes",
    "allow-all",
    "new Worker('for (;;);', { eval: true }); new Worker('for (;;);', { eval: true });",
  ),
  flood(
    "connections",
    "allow-all",
    "forever(300, (next) => { const s = net.connect(7, address, () => s.resetAndDestroy()); over(s, next); });",
  ),
  flood(
    "connections with TLS, relayed",
    "with rules",
    "forever(100, (next) => { const s = secure('other.test'); over(s, next).on('secureConnect', () => s.destroy()); });",
  ),
  flood(
    "connections with TLS, opened",
    "with rules",
    "forever(100, (next) => { const s = secure(opened); over(s, next).on('secureConnect', () => s.destroy()); });",
  ),
  flood(
    "handshakes that never end",
    "with rules",
    `
    const server = net.createServer((one) => one.once("data", (hello) => forever(300, (next) => {
      const s = net.connect(443, address, () => s.write(hello));
      over(s, next).once("data", () => s.resetAndDestroy());
    })));
    server.listen(0, () => tls.connect({ port: server.address().port, servername: opened, ALPNProtocols: ["h2"] }).on("error", () => 0));`,
  ),
  flood(
    "HTTP/2 requests taken back at once",
    "with rules",
    `
    const taken = (id) => [frame(1, 5, id, request), frame(3, 0, id, Buffer.from([0, 0, 0, 8]))];
    const all = Buffer.concat([preface, ...Array.from({ length: 1000 }, (_, i) => taken(2 * i + 1)).flat()]);
    forever(20, (next) => {
      const s = secure(opened, ["h2"]);
      over(s, next).on("secureConnect", () => s.write(all)).on("data", () => setTimeout(() => s.destroy(), 50));
    });`,
  ),
  flood(
    "HTTP/2 frames that ask for nothing",
    "with rules",
    `
    const pings = Array.from({ length: 2000 }, () => frame(6, 0, 0, Buffer.alloc(8)));
    const windows = Array.from({ length: 2000 }, () => frame(8, 0, 0, Buffer.from([0, 0, 0, 1])));
    let serial = 0;
    forever(40, (next) => {
      const s = secure(opened, ["h2"]);
      const frames = Buffer.concat(serial++ % 4 ? windows : pings);
      const pour = () => { done += 2000; if (s.write(frames)) setImmediate(pour); else s.once("drain", pour); };
      over(s, next).on("secureConnect", () => { s.write(preface); pour(); }).resume();
    });`,
  ),
  flood(
    "requests over HTTP/2",
    "with rules",
    `
    forever(30, (next) => {
      const session = http2.connect("https://" + opened, { createConnection: () => secure(opened, ["h2"]) });
      const ask = () => {
        if (session.destroyed) return;
        session.request({ ":path": "/" }).on("error", () => failed++).on("close", () => { done++; ask(); }).resume();
      };
      over(session, next).on("connect", () => { for (let i = 0; i < 100; i++) ask(); });
    });`,
  ),
  flood(
    "requests over HTTP/1.1",
    "with rules",
    `
    const get = "GET / HTTP/1.1\\r\\nhost: " + opened + "\\r\\n\\r\\n";
    forever(300, (next) => {
      const s = secure(opened, ["http/1.1"]);
      over(s, next).on("secureConnect", () => s.write(get.repeat(50))).on("data", () => { done++; s.write(get); });
    });`,
  ),
  flood(
    "uploads",
    "allow-all",
    `
    const block = Buffer.alloc(1 << 16);
    forever(400, (next) => {
      const s = net.connect(9, address);
      const pour = () => { while (s.write(block)) done++; };
      over(s, next).on("connect", pour).on("drain", pour);
    });`,
  ),
  flood(
    "downloads",
    "allow-all",
    `
    forever(400, (next) => {
      const s = net.connect(19, address, () => s.write("100000\\n"));
      over(s, next).on("data", () => done++);
    });`,
  ),
  flood(
    "slow readers",
    "with rules",
    `
    const get = "GET / HTTP/1.1\\r\\nhost: " + opened + "\\r\\n\\r\\n";
    forever(400, (next) => {
      const s = secure(opened, ["http/1.1"]);
      over(s, next).on("secureConnect", () => { s.write(get.repeat(100)); setInterval(() => { if (s.read(1)) done++; }, 20); });
    });`,
  ),
  flood(
    "questions for names",
    "with rules",
    `
    const name = Buffer.from("\\x03www\\x05other\\x04test\\0\\0\\x01\\0\\x01", "latin1");
    const question = Buffer.concat([Buffer.from("123401000001000000000000", "hex"), name]);
    for (let i = 0; i < 16; i++) {
      const s = dgram.createSocket("udp4").on("message", () => done++).on("error", () => failed++);
      const ask = () => { for (let j = 0; j < 20; j++) s.send(question); setImmediate(ask); };
      s.connect(53, "198.18.0.1", ask);
    }`,
  ),
  flood(
    "datagrams to many places",
    "allow-all",
    `
    const s = dgram.createSocket("udp4").on("error", () => failed++);
    const send = () => { for (let i = 0; i < 100; i++) s.send("x", (done++ % 65000) + 1, address); setImmediate(send); };
    send();`,
  ),
];

function flood(name: string, policy: Flood["policy"], script: string): Flood {
  return { name, policy, script: `${prelude}${script}` };
}
