/** Programs that only read interfaces still work though the agent hands out routing sockets (guest/agent/grants.h). */

import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { withRuntime } from "../harness/machine.ts";
import { run, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let machine: Machine;

beforeAll(async () => {
  machine = await (await withRuntime(undo)).boot();
});

const python = `python3 -c '
import socket
print([name for _, name in socket.if_nameindex()])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
print(s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
b = n.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
n.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * b)
print(n.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == b, n.get_inheritable(), n.getblocking())'`;
const many = `for i in $(seq 200); do ip -o link > /dev/null || exit 1; done; echo fine`;
const javaSource = `import java.net.*;
public class A { public static void main(String[] a) throws Exception { System.out.println(NetworkInterface.getByName("lo").getName()); } }`;
const goSource = `package main
import ("fmt"; "net")
func main() { i, e := net.Interfaces(); fmt.Println(i[0].Name, e) }`;

/** the name, the command that it needs, the shell line, and its expected output */
const programs: [name: string, command: string, line: string, prints: RegExp][] = [
  ["ip a", "ip", "ip a", /1: lo: <LOOPBACK,UP/],
  ["ip route", "ip", "ip route show table all", /lo/],
  ["two hundred times ip", "ip", many, /^fine$/m],
  ["getifaddrs", "python3", python, /\['lo'\]\n100000\nTrue False True/],
  ["Node", "node", `node -p 'Object.keys(os.networkInterfaces()).join()'`, /^lo$/m],
  ["getaddrinfo", "getent", "getent ahosts localhost", /127\.0\.0\.1|::1/],
  ["Java", "java", `cd $(mktemp -d) && echo '${javaSource}' > A.java && java A.java`, /^lo$/m],
  ["Go", "go", `cd $(mktemp -d) && echo '${goSource}' > a.go && HOME=$PWD go run a.go`, /^lo <nil>$/m],
];

/** the image has the host's programs below /usr/bin, and its own node */
const isInside = ([, command]: (typeof programs)[number]) => command === "node" || existsSync(`/usr/bin/${command}`);

describe.each(users)("to %s inside", (user) => {
  test.for(programs.filter(isInside))("%s works", { timeout: 60_000 }, async ([, , line, prints]) => {
    const { code, out } = await run(machine, user, ["sh", "-c", line]);
    expect(out).toMatch(prints);
    expect(code).toBe(0);
  });
});
