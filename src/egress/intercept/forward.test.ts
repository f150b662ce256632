/** Requests that a rule sends to a server of the policy's owner, and the proof of where they come from. */

import { createPublicKey, verify } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { ask, host, http1Server, http2, listening, open, tls } from "../../../test/internet/interception.ts";
import type { ForwardIdentity, RequestRule } from "../../core/network/network-policy.ts";
import { type SigningKey, signingKeyIn } from "../../daemon/signing-key.ts";
import { tokenFor } from "./identity.ts";

async function identityOf(): Promise<{ identity: ForwardIdentity; signing: SigningKey }> {
  const signing = signingKeyIn(join(await tempDir(), "oidc.key"))();
  const { key, keyId } = signing;
  const who = { teamId: "team_1", projectId: "prj_1", sandboxId: "sbx_1", sandboxName: "mine" };
  return { identity: { ...who, issuer: "http://127.0.0.1:7700", key, keyId }, signing };
}

function claimsOf(token: string, { jwks }: SigningKey): Record<string, unknown> {
  const [header = "", claims = "", signature = ""] = token.split(".");
  const { kid, alg } = JSON.parse(Buffer.from(header, "base64url").toString());
  const jwk = jwks.keys.find((key) => "kid" in key && key.kid === kid);
  expect(alg).toBe("RS256");
  const key = createPublicKey({ format: "jwk", key: { ...jwk } });
  expect(verify("sha256", Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, "base64url"))).toBe(true);
  return JSON.parse(Buffer.from(claims, "base64url").toString());
}

/** tells what it was asked */
function tell(message: IncomingMessage): Promise<string> {
  const { method, url, headers } = message;
  return message
    .toArray()
    .then((chunks) => JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }));
}

describe("forward", () => {
  test("sends nothing where the names of its headers are not set", async () => {
    const { identity } = await identityOf();
    const rules: RequestRule[] = [{ action: { kind: "forward", url: "http://127.0.0.1:1/" } }];
    const reply = await ask(await open(1, rules, { identity, forwardHeaders: undefined }), { headers: { host } });
    expect([reply.status, reply.body]).toEqual([502, expect.stringContaining("headers are not set")]);
  });

  test("sends the request there, with what it was about and who asks", async () => {
    const server = createServer((message, response) => void tell(message).then((received) => response.end(received)));
    const url = `http://127.0.0.1:${await listening(server)}/proxy?key=1`;
    const { identity, signing } = await identityOf();
    const door = await open(1, [{ action: { kind: "forward", url } }], { identity });
    const forged = { "vercel-sandbox-oidc-token": "forged", "vercel-forwarded-host": "forged.test" };
    const reply = await ask(
      door,
      { method: "POST", path: "/v1/x?y=z", headers: { host, "x-a": "b", ...forged } },
      "body",
    );
    const received = JSON.parse(reply.body);
    expect(received).toMatchObject({ method: "POST", url: "/proxy?key=1", body: "body" });
    const { "vercel-sandbox-oidc-token": token, ...headers } = received.headers;
    expect(headers).toMatchObject({
      host: new URL(url).host,
      "x-a": "b",
      "vercel-forwarded-host": host,
      "vercel-forwarded-scheme": "https",
      "vercel-forwarded-port": "443",
      "vercel-forwarded-path": "/v1/x?y=z",
    });
    expect(claimsOf(token, signing)).toMatchObject({
      iss: "http://127.0.0.1:7700",
      aud: [url, url.replace("?key=1", "")],
      team_id: "team_1",
      project_id: "prj_1",
      sandbox_id: "sbx_1",
      sandbox_name: "mine",
    });
    expect(door.connections()).toBe(0);
    expect(door.seen).toMatchObject([{ path: "/v1/x", status: 200, rule: { kind: "forward" } }]);
  });

  test("checks the certificate of a server over TLS, and takes programs of HTTP/2 there too", async () => {
    const { port } = await http1Server(
      (message, response) => void tell(message).then((received) => response.end(received)),
    );
    const { identity } = await identityOf();
    const rule = (name: string): RequestRule => ({ action: { kind: "forward", url: `https://${name}:${port}/` } });
    const session = await http2(await open(1, [rule("proxy.test")], { identity }));
    const stream = session.request({ ":path": "/a", ":authority": host });
    const received = JSON.parse(Buffer.concat(await stream.toArray()).toString());
    expect(received).toMatchObject({
      url: "/",
      headers: { host: `proxy.test:${port}`, "vercel-forwarded-path": "/a" },
    });
    const reply = await ask(await open(1, [rule("proxy.test")], { identity, roots: [] }));
    expect(reply).toMatchObject({ status: 502 });
    expect(reply.body).toContain('Cannot reach "proxy.test": its certificate is not valid');
  });

  test("takes WebSockets there", async () => {
    const server = createServer();
    server.on("upgrade", (message, socket) => {
      socket.end(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n${message.headers["vercel-forwarded-path"]}`,
      );
    });
    const url = `http://127.0.0.1:${await listening(server)}/`;
    const { identity } = await identityOf();
    const socket = await tls(await open(1, [{ action: { kind: "forward", url } }], { identity }));
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n`);
    let text = "";
    for await (const chunk of socket) text += chunk;
    expect(text).toMatch(/^HTTP\/1.1 101 [\s\S]*\r\n\r\n\/ws$/);
  });

  test("says why when it cannot be", async () => {
    const { identity } = await identityOf();
    const rules: RequestRule[] = [{ action: { kind: "forward", url: "http://127.0.0.1:1/" } }];
    expect((await ask(await open(1, rules, { identity }))).body).toMatch(/Cannot reach "127.0.0.1": .*ECONNREFUSED/);
    expect(await ask(await open(1, rules))).toMatchObject({ status: 502 });
  });
});

test("a token is good for a few minutes, and given again for one", async () => {
  const { identity, signing } = await identityOf();
  const now = Date.now();
  const token = tokenFor(identity, "https://a.test/", now);
  expect(tokenFor(identity, "https://a.test/", now + 30_000)).toBe(token);
  expect(tokenFor(identity, "https://b.test/", now)).not.toBe(token);
  expect(tokenFor({ ...identity, sandboxId: "sbx_2" }, "https://a.test/", now)).not.toBe(token);
  expect(tokenFor(identity, "https://a.test/", now + 61_000)).not.toBe(token);
  const { exp, iat, aud } = claimsOf(token, signing);
  expect(aud).toEqual(["https://a.test/", "https://a.test"]);
  expect(claimsOf(tokenFor(identity, "https://a.test/b", now), signing).aud).toBe("https://a.test/b");
  expect(Number(exp) - Number(iat)).toBe(300);
});
