/** Identity tokens, which `docker login` keeps instead of a password: only a registry's own token server gets them. */

import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { stores, tarOf } from "../../../../test/harness/images/image-archives.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { serve, TestRegistry } from "../../../../test/harness/images/test-registry.ts";
import type { Login } from "./credentials.ts";
import { pullImage } from "./pull.ts";
import { parseReference } from "./reference.ts";

const { store } = useLayerTools();

function pull(at: TestStore, { host }: TestRegistry, login: Login, privates: string[] = []) {
  return pullImage(stores(at), parseReference(`${host}/team/app:v1`), {
    settings: { http: [host], private: privates, mirrors: {} },
    credentials: { find: async (registry) => (registry === host ? login : undefined) },
    isTrusted: true,
    node: false,
  });
}

test("an identity token goes to the registry's own token server alone, which exchanges it", async () => {
  const [at, registry] = [await store({ volumes: true }), await new TestRegistry().listen()];
  const login = { user: "<token>", password: "long-lived", isToken: true };
  registry.image("v1", [await tarOf([{ name: "bin/tool", content: "tool" }])]);
  const heard: string[] = [];
  const elsewhere = await serve(async (request, response) => {
    heard.push(`${request.method} ${request.headers.authorization} ${await text(request)}`);
    response.writeHead(401).end();
  });
  let challenge = `Bearer realm="http://${elsewhere}/token",service="s"`;
  const forms: Record<string, string>[] = [];
  registry.before = (request, response) => {
    const { url = "", method, headers } = request;
    if (url === "/oauth") {
      void text(request).then((body) => {
        const form = Object.fromEntries(new URLSearchParams(body));
        forms.push({ method: method ?? "", ...form });
        if (form.refresh_token === "long-lived") response.end('{"access_token":"good","refresh_token":"long-lived"}');
        else response.writeHead(401).end();
      });
      return true;
    }
    if (headers.authorization === "Bearer good") return false;
    response.writeHead(401, { "www-authenticate": challenge }).end();
    return true;
  };
  const refused = () => refusal(pull(at, registry, login, [registry.host]));
  expect(await refused()).toMatch(/gave no token \(401\); credentials for ".*" are not sent to/);
  expect(heard).toEqual(["GET undefined "]);
  // No password that HTTP's Basic scheme could send.
  challenge = 'Basic realm="here"';
  expect(await refused()).toMatch(/lets only others have it/);
  challenge = `Bearer realm="http://${registry.host}/oauth",service="s"`;
  expect((await pull(at, registry, login)).isNew).toBe(true);
  expect(forms[0]).toEqual({
    ...{ method: "POST", grant_type: "refresh_token", client_id: "sandkeep", refresh_token: "long-lived" },
    ...{ service: "s", scope: "repository:team/app:pull" },
  });
  expect(registry.asked.every(({ headers }) => [undefined, "Bearer good"].includes(headers.authorization))).toBe(true);
  const expired = { ...login, password: "expired" };
  const other = await store({ volumes: true });
  expect(await refusal(pull(other, registry, expired))).toMatch(/gave no token \(401\)$/);
});
