/** Programs that only read interfaces still work though the agent hands out routing sockets (guest/agent/grants.h). */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { installGo } from "../harness/go-program.ts";
import { withRuntime } from "../harness/machine.ts";
import { run, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let machine: Machine;

beforeAll(async () => {
  machine = await (await withRuntime(undo)).boot();
  await installGo(machine, "/usr/local/bin/interfaces", goSource);
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

/** the name, the shell line, and its expected output; scripts/host-needs.mjs has every program of these */
const programs: [name: string, line: string, prints: RegExp][] = [
  ["ip a", "ip a", /1: lo: <LOOPBACK,UP/],
  ["ip route", "ip route show table all", /lo/],
  ["two hundred times ip", many, /^fine$/m],
  ["getifaddrs", python, /\['lo'\]\n100000\nTrue False True/],
  ["Node", `node -p 'Object.keys(os.networkInterfaces()).join()'`, /^lo$/m],
  ["getaddrinfo", "getent ahosts localhost", /127\.0\.0\.1|::1/],
  ["Java", `cd $(mktemp -d) && echo '${javaSource}' > A.java && java A.java`, /^lo$/m],
  ["Go", "/usr/local/bin/interfaces", /^lo <nil>$/m],
];

describe.each(users)("to %s inside", (user) => {
  test.each(programs)("%s works", async (_, line, prints) => {
    const { code, out } = await run(machine, user, ["sh", "-c", line]);
    expect(out).toMatch(prints);
    expect(code).toBe(0);
  });
});
