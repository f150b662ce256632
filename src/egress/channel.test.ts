/**
 * Pins the channel between netd and the egress process, which is Node's own for child processes and nowhere documented:
 * what guest/egress/egress.c relies on is done here by a few lines of Python, in netd's place.
 */

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeEach, describe, expect, test } from "vitest";
import { root, tempDir } from "../../test/harness/harness.ts";
import { needs } from "../../test/runner/needs.ts";
import { noEgressSettings } from "../core/ports/egress-settings.ts";
import { replies } from "./channel.ts";

const run = promisify(execFile);

describe("the wire", () => {
  beforeEach((context) => needs(context, "the command python3"));

  test("a connection arrives with its message, works with one direction ended, and its begin and end are told", async () => {
    const output = await netd(`
listener = socket.create_server(("127.0.0.1", 0)); far = listener.getsockname()[1]
inner = socket.create_server(("127.0.0.1", 0))
for i in range(2):
    app = socket.create_connection(inner.getsockname()); accepted = inner.accept()[0]
    hand({"kind": "tcp", "id": 7, "machine": "a", "address": "127.0.0.1", "port": far}, accepted)
    server = listener.accept()[0]
    app.sendall(b"question"); app.shutdown(socket.SHUT_WR)
    print(read(server)); server.sendall(b"answer"); server.close()
    print(read(app)); app.close()
    print(line()); print(line()); print(line())
`);
    const once = ["question", "answer", '{"cmd":"NODE_HANDLE_ACK"}', '"taken 7 1"', '"closed 7 1"'];
    expect(output).toEqual([...once, ...once]);
  });

  test("many messages in one piece stay with their connections", async () => {
    const output = await netd(`
inner = socket.create_server(("127.0.0.1", 0))
far = [socket.create_server(("127.0.0.1", 0)) for i in range(5)]
apps = []
for f in far:
    app = socket.create_connection(inner.getsockname()); accepted = inner.accept()[0]; apps.append(app)
    say({"kind": "udp", "id": 7, "machine": "a", "flow": 1, "address": "10.0.0.1", "port": 53})
    hand({"kind": "tcp", "id": 7, "machine": "a", "address": "127.0.0.1", "port": f.getsockname()[1]}, accepted)
for i, f in enumerate(far):
    server = f.accept()[0]; apps[i].sendall(str(i).encode()); print(server.recv(10).decode())
`);
    expect(output).toEqual(["0", "1", "2", "3", "4"]);
  });

  test("flows are judged and sandboxes ended", async () => {
    const output = await netd(`
for flow, address in ((1, "127.0.0.1"), (2, "10.0.0.1"), (3, "1.1.1.1")):
    say({"kind": "udp", "id": 7, "machine": "a", "flow": flow, "address": address, "port": 53}); print(line())
listener = socket.create_server(("127.0.0.1", 0)); inner = socket.create_server(("127.0.0.1", 0))
app = socket.create_connection(inner.getsockname())
hand({"kind": "tcp", "id": 7, "machine": "a", "address": "127.0.0.1", "port": listener.getsockname()[1]}, inner.accept()[0])
server = listener.accept()[0]; line()
say({"kind": "end", "id": 8}); say({"kind": "end", "id": 7}); print(line()); print(line())
try: print(app.recv(1))
except ConnectionResetError: print("reset")
`);
    expect(output).toEqual(['"allow 1"', '"deny 2"', '"allow 3"', '"taken 7 1"', '"closed 7 1"', "reset"]);
  });

  test("the process ends with its channel", async () => {
    expect(await netd("channel.shutdown(socket.SHUT_RDWR); print(node.wait())")).toEqual(["0"]);
  });
});

test("connections are counted up, and that a single one was taken is told with what comes next", async () => {
  const said: string[] = [];
  const { taken, closed } = replies((line) => said.push(line));
  for (const id of [1, 2, 1, 1]) taken(id);
  await new Promise(setImmediate);
  expect(said.splice(0)).toEqual(["taken 1 3"]);
  taken(1);
  for (const id of [2, 3, 3]) closed(id);
  await new Promise(setImmediate);
  expect(said.splice(0)).toEqual(["taken 2 1", "closed 2 1", "closed 3 2"]);
  taken(1);
  await new Promise(setImmediate);
  expect(said).toEqual(["taken 1 2"]);
});

/** Runs Python that has the egress process at the other end of `channel`; returns the lines it printed. */
async function netd(code: string): Promise<string[]> {
  const main = join(root, "src/egress/main.ts");
  const settings = join(await tempDir(), "settings.json");
  await writeFile(settings, JSON.stringify({ ...noEgressSettings, allow: ["127.0.0.1/32"] }));
  const env = { ...process.env, SANDKEEP_EGRESS_SETTINGS: settings };
  const { stdout } = await run("python3", ["-c", prelude + code, process.execPath, main], { env });
  return stdout.trim().split("\n");
}

const prelude = `
import json, os, socket, subprocess, sys
socket.setdefaulttimeout(10)
channel, end = socket.socketpair()
channel.settimeout(10)
environment = dict(os.environ, NODE_CHANNEL_FD=str(end.fileno()), NODE_CHANNEL_SERIALIZATION_MODE="json")
node = subprocess.Popen(sys.argv[1:], pass_fds=[end.fileno()], env=environment)
end.close()
lines = channel.makefile("r")
def line(): return lines.readline().strip()
def text(message): return (json.dumps(message) + "\\n").encode()
def say(message): channel.sendall(text(message))
def hand(message, connection):
    socket.send_fds(channel, [text({"cmd": "NODE_HANDLE", "type": "net.Socket", "msg": message})], [connection.fileno()])
    connection.close()
def read(s):
    data = b""
    while chunk := s.recv(65536): data += chunk
    return data.decode()
`;
