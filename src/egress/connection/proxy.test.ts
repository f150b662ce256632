/** Tunnels through a proxy: what it is asked for, what it may answer, and for whom it is the way. */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import type { EgressProxy } from "../../core/ports/egress-settings.ts";
import { addressRules } from "../policy/addresses.ts";
import { dialThrough, isProxied, type Target } from "./proxy.ts";

const web: Target = { address: "93.184.216.34", port: 443, name: "web.test" };
const options = {
  resolvers: () => [],
  addresses: addressRules({ allow: [], hostAddresses: () => [] }),
  signal: new AbortController().signal,
};

describe("a proxy", () => {
  test("is asked for an address, and what it says after its answer is the server's", async () => {
    const { proxy, asked } = await proxyThat((socket) => socket.write("HTTP/1.1 200 OK\r\nVia: x\r\n\r\nhello"));
    const socket = await dialThrough(proxy, web, options);
    const [said] = await once(socket, "data");
    expect(String(said)).toBe("hello");
    expect(asked).toEqual(["CONNECT 93.184.216.34:443 HTTP/1.1\r\nHost: 93.184.216.34:443\r\n\r\n"]);
    socket.destroy();
  });

  test("is asked for a name where that is wanted and known, and is told who asks", async () => {
    const { proxy, asked } = await proxyThat((socket) => socket.write("HTTP/1.0 200 Connection established\r\n\r\n"));
    const named = { ...proxy, names: true, authorization: "Basic c2VjcmV0" };
    for (const target of [web, { address: "2606:2800::1", port: 80 }]) {
      (await dialThrough(named, target, options)).destroy();
    }
    expect(asked).toEqual([
      "CONNECT web.test:443 HTTP/1.1\r\nHost: web.test:443\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n",
      "CONNECT [2606:2800::1]:80 HTTP/1.1\r\nHost: [2606:2800::1]:80\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n",
    ]);
  });

  test.each([
    ["HTTP/1.1 407 Who are you\r\n\r\n", "the proxy answers 407 Proxy Authentication Required"],
    ["HTTP/1.1 403 \x1b[2J\r\n\r\n", "the proxy answers 403 Forbidden"],
    ["SSH-2.0-x\r\n\r\n", "through the proxy: it does not answer in HTTP"],
    ["x".repeat(20_000), "through the proxy: it does not answer in HTTP"],
    ["", "through the proxy: it closed the connection"],
  ])("that says no is told of in a sentence without its credentials: %j", async (answer, sentence) => {
    const { proxy } = await proxyThat((socket) => socket.end(answer));
    const failed = dialThrough({ ...proxy, authorization: "Basic c2VjcmV0" }, web, options);
    await expect(failed).rejects.toThrow(/^Cannot connect to 93\.184\.216\.34:443[: ]/);
    await expect(failed).rejects.toThrow(sentence);
    await expect(failed).rejects.not.toThrow(/c2VjcmV0|secret/);
  });

  test("that is not there, or has no address, is told of by its name", async () => {
    const { proxy, close } = await proxyThat(() => undefined);
    await close();
    await expect(dialThrough(proxy, web, options)).rejects.toThrow(
      `Cannot reach the proxy "127.0.0.1" port ${proxy.port}: ECONNREFUSED`,
    );
    const nowhere = { ...proxy, host: "proxy.test" };
    await expect(dialThrough(nowhere, web, options)).rejects.toThrow(
      'Cannot reach the proxy "proxy.test": no such name',
    );
  });

  test("is given up with the connection", async () => {
    const { proxy } = await proxyThat(() => undefined);
    const abort = new AbortController();
    const dialing = dialThrough(proxy, web, { ...options, signal: abort.signal });
    setTimeout(() => abort.abort(), 20);
    await expect(dialing).rejects.toThrow("the connection was cancelled");
  });
});

test("the proxy is the way to public addresses, but for those that the operator leaves out", () => {
  const proxy: EgressProxy = { host: "p", port: 1, names: false, direct: ["corp.test", ".inner.test", "1.2.0.0/16"] };
  const way = (address: string, name?: string) => isProxied(proxy, { address, port: 443, name });
  expect([way("93.184.216.34"), way("2606:2800::1", "web.test"), way("9.9.9.9", "notcorp.test")]).toEqual([
    true,
    true,
    true,
  ]);
  for (const address of ["10.0.0.1", "169.254.169.254", "fd00::1", "127.0.0.1", "::ffff:10.0.0.1", "1.2.3.4"]) {
    expect(way(address), address).toBe(false);
  }
  for (const name of ["corp.test", "git.corp.test", "inner.test", "a.b.inner.test"]) {
    expect(way("93.184.216.34", name), name).toBe(false);
  }
});

/** answers once the whole question is there */
async function proxyThat(answer: (socket: Socket) => void) {
  const asked: string[] = [];
  const server = createServer((socket) => {
    let text = "";
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      text += chunk;
      if (!text.endsWith("\r\n\r\n")) return;
      asked.push(text);
      answer(socket);
    });
  });
  const close = () => new Promise((resolve) => server.close(resolve));
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const proxy: EgressProxy = { host: "127.0.0.1", port, names: false, direct: [] };
  connect(port, "127.0.0.1").destroy();
  return { proxy, asked, close };
}
