/** Tests of how a sandbox's files change when its programs must trust its authority. */

import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { HostRoots, NetworkSecrets } from "../context.ts";
import type { CustomNetwork, NetworkPolicy } from "../network/network-policy.ts";
import type { FileInfo, Files, Machine, MachineNetwork } from "../ports/runtime.ts";
import { beginTrust, trustEnvironment, trusted } from "./trust.ts";

const bundle = "/etc/ssl/certs/ca-certificates.crt";
const anchors = [
  "/etc/pki/ca-trust/source/anchors/vercel-proxy-ca.pem",
  "/usr/local/share/ca-certificates/vercel-proxy-ca.pem",
];
const mine = pem("mine");
const roots = `${pem("one")}${pem("two")}`;
const company: HostRoots = {
  pems: [pem("company")],
  pem: pem("company"),
  bundle: `${roots}${pem("three")}`,
  addToJava: (store) => Buffer.from(`${Buffer.from(store)}+company`),
};

test("the certificate goes to the bundle and to the folders that bundles are made from", async () => {
  const { machine, files } = machineWith({ [bundle]: roots });
  await installTrust(machine, network(mine));
  expect(Object.keys(files).sort()).toEqual([anchors[0], bundle, anchors[1]].sort());
  for (const anchor of anchors) expect(files[anchor]).toBe(mine);
  expect(files[bundle]).toMatch(new RegExp(`^${roots}\n#.*\n${mine}$`));
});

test("a repeated call changes nothing", async () => {
  const { machine, files } = machineWith({ [bundle]: roots });
  await installTrust(machine, network(mine));
  const before = { ...files };
  await installTrust(machine, network(mine));
  expect(files).toEqual(before);
});

test("a fork loses the authority of its origin, and nothing else", async () => {
  const { machine, files } = machineWith({ [bundle]: roots });
  await installTrust(machine, network(pem("origin")));
  files[bundle] += pem("added later");
  await installTrust(machine, network(mine));
  for (const name of ["one", "two", "added later", "mine"]) expect(files[bundle]).toContain(pem(name));
  expect(files[bundle]).not.toContain(pem("origin"));
});

test("an image with its bundle elsewhere gets one at the path that the variables name", async () => {
  const { machine, files } = machineWith({ "/etc/pki/tls/certs/ca-bundle.crt": roots });
  await installTrust(machine, network(mine), true);
  expect(files[bundle]).toContain(roots);
  expect(files[bundle]).toContain(mine);
});

test("trusted() waits for all work that has begun, and for nothing later", async () => {
  const { machine, files } = machineWith({ [bundle]: roots });
  const logError = (error: unknown) => expect(error).toBeUndefined();
  for (const name of ["first", "second"]) beginTrust(machine, network(pem(name)), { networkSecrets, logError });
  await trusted(machine);
  expect(files[bundle]).toContain(pem("second"));
  files[bundle] = roots;
  await trusted(machine);
  expect(files[bundle]).toBe(roots);
});

test("nothing happens without an authority", async () => {
  const { machine, files } = machineWith({ [bundle]: roots });
  const { authority: _, ...without } = network(mine);
  for (const each of ["allow-all", "deny-all", without] as const) await installTrust(machine, each);
  expect(files).toEqual({ [bundle]: roots });
});

test("a bundle that is too large is reported, and left alone", async () => {
  const { machine, files } = machineWith({ [bundle]: "x".repeat(9 << 20) });
  await expect(installTrust(machine, network(mine))).rejects.toThrow('Cannot make "sbx_1" trust its authority');
  expect(Object.keys(files)).toEqual([bundle]);
});

test("variables are set only under a policy with rules, or if the host has roots of its own", () => {
  const domains = (rules: object[]) => [{ domain: "a.test", rules }];
  const policy = (rules: object[]) => ({ ...network(mine), domains: domains(rules) }) as NetworkPolicy;
  expect(trustEnvironment({ mode: "allow-all" }, {})).toEqual({});
  expect(trustEnvironment(policy([]), {})).toEqual({});
  const ruled = policy([{ action: { kind: "set-headers", headers: {} } }]);
  const names = Object.keys(trustEnvironment(ruled, {}));
  expect(names).toEqual([
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_SYSTEM_CA",
    "NPM_CONFIG_CAFILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
  ]);
  const own = "/usr/local/share/ca-certificates/sandkeep-host-roots.crt";
  const host = { NODE_EXTRA_CA_CERTS: own, NODE_USE_SYSTEM_CA: "1", REQUESTS_CA_BUNDLE: bundle, SSL_CERT_FILE: bundle };
  expect(trustEnvironment({ mode: "allow-all" }, { hostRoots: company })).toEqual(host);
  expect(trustEnvironment(ruled, { hostRoots: company }).NODE_EXTRA_CA_CERTS).toBe(bundle);
  expect(trustEnvironment(ruled, { networkSecrets }).NODE_EXTRA_CA_CERTS).toBe(anchors[1]);
});

test("the operator's variables replace ours", () => {
  const sandboxEnv = { TZ: "UTC", SSL_CERT_FILE: "/mine" };
  expect(trustEnvironment({ mode: "allow-all" }, { sandboxEnv })).toEqual(sandboxEnv);
  expect(trustEnvironment({ mode: "allow-all" }, { hostRoots: company, sandboxEnv })).toMatchObject(sandboxEnv);
});

describe("the host's roots", () => {
  const own = ["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"].map(
    (folder) => `${folder}/sandkeep-host-roots.crt`,
  );

  test("go to the bundle, to the folders that bundles are made from, and into Java's store", async () => {
    const java = "/etc/ssl/certs/java/cacerts";
    const { machine, files } = machineWith({ [bundle]: roots, [java]: "store" });
    await installRoots(machine, company);
    expect(files).toEqual({
      [bundle]: `${roots}\n# 1 certificates that the host of this sandbox believes\n${pem("company")}`,
      [java]: "store+company",
      ...Object.fromEntries(own.map((path) => [path, company.pem])),
    });
    const before = { ...files };
    await installRoots(machine, company);
    expect(files).toEqual(before);
  });

  test("are not written twice if the image has them, and are the host's whole list if it has none", async () => {
    const having = machineWith({ [bundle]: roots + pem("company") });
    await installRoots(having.machine, company);
    expect(having.files[bundle]).toBe(roots + pem("company"));
    const bare = machineWith({});
    await installRoots(bare.machine, company);
    expect(bare.files[bundle]).toContain(company.bundle);
  });

  test("replace those of an earlier start, and leave certificates that others have added", async () => {
    const { machine, files } = machineWith({ [bundle]: roots });
    await installRoots(machine, { ...company, pems: [pem("old"), pem("older")], pem: pem("old") + pem("older") });
    files[bundle] += pem("added later");
    await installRoots(machine, company);
    for (const name of ["one", "two", "added later", "company"]) expect(files[bundle]).toContain(pem(name));
    for (const name of ["old", "older"]) expect(files[bundle]).not.toContain(pem(name));
  });

  test("are installed beside the authority if a policy has rules", async () => {
    const { machine, files } = machineWith({ [bundle]: roots });
    const context = { networkSecrets, hostRoots: company, logError: (error: unknown) => expect(error).toBeUndefined() };
    beginTrust(machine, network(mine), context, { fresh: true });
    await trusted(machine);
    for (const name of ["one", "two", "company", "mine"]) expect(files[bundle]).toContain(pem(name));
  });

  test("are left alone in an image that was made with them", async () => {
    const { machine, files } = machineWith({ [bundle]: roots });
    beginTrust(machine, "allow-all", { hostRoots: company, logError: () => undefined }, { fresh: true, rooted: true });
    await trusted(machine);
    expect(files).toEqual({ [bundle]: roots });
  });
});

async function installRoots(machine: Machine, hostRoots: HostRoots): Promise<void> {
  beginTrust(machine, "allow-all", { hostRoots, logError: (error) => expect(error).toBeUndefined() });
  await trusted(machine);
}

async function installTrust(machine: Machine, wanted: MachineNetwork, fresh = false): Promise<void> {
  const logged: unknown[] = [];
  beginTrust(machine, wanted, { networkSecrets, logError: (error) => void logged.push(error) }, { fresh });
  await trusted(machine);
  if (logged.length > 0) throw logged[0];
}

function pem(name: string): string {
  return `-----BEGIN CERTIFICATE-----\n${name}\n-----END CERTIFICATE-----\n`;
}

/** here an authority is only its certificate */
const networkSecrets: NetworkSecrets = {
  authorityOf: () => expect.unreachable(),
  identityOf: () => expect.unreachable(),
  certificateOf: ({ keyMaterial }) => keyMaterial,
  certificateFile: "vercel-proxy-ca.pem",
};

function network(certificate: string): CustomNetwork {
  const authority = { keyMaterial: certificate, serial: "" };
  return { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [], authority };
}

/** a machine that has only files, by path */
function machineWith(files: Record<string, string>): { machine: Machine; files: Record<string, string> } {
  const found = (path: string) => {
    const content = files[path];
    if (content === undefined) throw new Error(`There is no "${path}"`);
    return content;
  };
  const operations: Partial<Files> = {
    stat: async (path) => ({ type: "file", size: found(path).length }) as FileInfo,
    read: (path) => Readable.from([Buffer.from(found(path))]),
    async write(path, data, options) {
      const text = data instanceof Uint8Array ? Buffer.from(data).toString() : "";
      files[path] = options?.append ? found(path) + text : text;
    },
    async move(from, to) {
      files[to] = found(from);
      delete files[from];
    },
  };
  const machine: Partial<Machine> = { id: "sbx_1", files: () => operations as Files };
  return { machine: machine as Machine, files };
}
