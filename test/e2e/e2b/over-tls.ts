/** E2B's SDK over HTTPS, as its users' programs use it; prints what it saw as JSON. */

import { subscribe } from "node:diagnostics_channel";
import type { TLSSocket } from "node:tls";
import { Sandbox } from "e2b";

const seen: Record<string, unknown> = {};
const protocols = new Set<string>();
// undici, which the SDK sends with, reports each connection.
subscribe("undici:client:connected", (message) => {
  const { socket } = message as { socket: TLSSocket }; // as undici documents it
  protocols.add(socket.alpnProtocol || "none");
});

const sandbox = await Sandbox.create({ timeoutMs: 120_000, network: { allowPublicTraffic: true } });
const { stdout, exitCode } = await sandbox.commands.run("echo hello");
seen.run = [exitCode, stdout];
seen.failed = await sandbox.commands.run("exit 3").catch((error) => error.exitCode);

const bytes = new Uint8Array(8 << 20).map((_, at) => at % 251);
await sandbox.files.write("a/big.bin", bytes.buffer);
const read = await sandbox.files.read("a/big.bin", { format: "bytes" });
seen.same = Buffer.compare(bytes, read) === 0;
await sandbox.files.write("a/stream.bin", new Blob([bytes]).stream());
seen.streamed = (await sandbox.files.getInfo("a/stream.bin")).size;
seen.refused = await sandbox.files
  .write("x", bytes.buffer, { user: "stranger" })
  .catch((error) => error.constructor.name);
seen.missing = await sandbox.files.exists("nowhere");

const lines: string[] = [];
const streaming = await sandbox.commands.run("for i in 1 2 3; do echo $i; sleep 0.1; done", {
  background: true,
  onStdout: (text) => void lines.push(text.trim()),
});
await streaming.wait();
seen.lines = lines.join(" ");

const changes: string[] = [];
const watch = await sandbox.files.watchDir("a", ({ type, name }) => void changes.push(`${type} ${name}`));
await sandbox.files.write("a/new.txt", "new");
while (!changes.includes("write new.txt")) await new Promise((resolve) => setTimeout(resolve, 10));
await watch.stop();

// Many requests share a connection with streams that stay open.
const open = await Promise.all([1, 2, 3].map(() => sandbox.commands.run("cat", { background: true, stdin: true })));
const many = await Promise.all(Array.from({ length: 40 }, (_, at) => sandbox.commands.run(`echo ${at}`)));
seen.many = many.every(({ stdout }, at) => stdout === `${at}\n`);
seen.killed = await Promise.all(open.map((command) => command.kill()));

const server = `require("http").createServer((q, s) => {
  s.setHeader("x-seen", [q.headers.host, q.headers["x-forwarded-proto"], q.httpVersion].join(" "));
  if (q.url === "/cut") { s.write("half"); setTimeout(() => s.destroy(), 50); } else q.pipe(s);
}).on("upgrade", (q, k) => {
  k.write("HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n");
  k.pipe(k);
}).listen(8000, () => console.log("ready"))`;
const listening = Promise.withResolvers<unknown>();
await sandbox.commands.run(`node -e '${server}'`, {
  background: true,
  timeoutMs: 0,
  onStdout: (text) => listening.resolve(text),
});
await listening.promise;
const host = sandbox.getHost(8000);
const answer = await fetch(`https://${host}/x`, { method: "POST", body: "to the port" });
seen.port = [answer.status, await answer.text(), answer.headers.get("x-seen")];
seen.signed = await (await fetch(await sandbox.downloadUrl("a/new.txt"))).text();
seen.otherWire = (await fetch(new URL("/health", process.env.E2B_API_URL))).status;
if (process.env.KEEP === undefined) await sandbox.kill();
console.log(JSON.stringify({ ...seen, host, protocols: [...protocols] }));
process.exit(0);
