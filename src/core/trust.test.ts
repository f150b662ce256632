/** What becomes of a sandbox's files when its programs are to trust its authority. */

import { Readable } from "node:stream";
import { expect, test } from "vitest";
import type { NetworkSecrets } from "./context.ts";
import type { CustomNetwork, NetworkPolicy } from "./network-policy.ts";
import type { FileInfo, Files, Machine, MachineNetwork } from "./runtime.ts";
import { beginTrust, trustEnvironment, trusted } from "./trust.ts";

const bundle = "/etc/ssl/certs/ca-certificates.crt";
const anchors = [
  "/etc/pki/ca-trust/source/anchors/vercel-proxy-ca.pem",
  "/usr/local/share/ca-certificates/vercel-proxy-ca.pem",
];
const mine = pem("mine");
const roots = `${pem("one")}${pem("two")}`;

test("the certificate goes to the bundle and where bundles are made from", async () => {
  const { machine, files } = machineWith({ [bundle]: roots });
  await installTrust(machine, network(mine));
  expect(Object.keys(files).sort()).toEqual([anchors[0], bundle, anchors[1]].sort());
  for (const anchor of anchors) expect(files[anchor]).toBe(mine);
  expect(files[bundle]).toMatch(new RegExp(`^${roots}\n#.*\n${mine}$`));
});

test("asking again changes nothing", async () => {
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

test("an image that keeps its bundle elsewhere gets one where programs are told to look", async () => {
  const { machine, files } = machineWith({ "/etc/pki/tls/certs/ca-bundle.crt": roots });
  await installTrust(machine, network(mine), true);
  expect(files[bundle]).toContain(roots);
  expect(files[bundle]).toContain(mine);
});

test("whoever waits for it waits for all that was begun, and for nothing afterwards", async () => {
  const { machine, files } = machineWith({ [bundle]: roots });
  const trouble = (error: unknown) => expect(error).toBeUndefined();
  for (const name of ["first", "second"]) beginTrust(machine, network(pem(name)), { networkSecrets, trouble });
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

test("a bundle that is too large is told of, and left alone", async () => {
  const { machine, files } = machineWith({ [bundle]: "x".repeat(9 << 20) });
  await expect(installTrust(machine, network(mine))).rejects.toThrow('Cannot make "sbx_1" trust its authority');
  expect(Object.keys(files)).toEqual([bundle]);
});

test("variables are set only under a policy with rules", () => {
  const domains = (rules: object[]) => [{ domain: "a.test", rules }];
  const policy = (rules: object[]) => ({ ...network(mine), domains: domains(rules) }) as NetworkPolicy;
  expect(trustEnvironment({ mode: "allow-all" })).toEqual({});
  expect(trustEnvironment(policy([]))).toEqual({});
  const names = Object.keys(trustEnvironment(policy([{ action: { kind: "set-headers", headers: {} } }])));
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
});

async function installTrust(machine: Machine, wanted: MachineNetwork, fresh = false): Promise<void> {
  const troubles: unknown[] = [];
  beginTrust(machine, wanted, { networkSecrets, trouble: (error) => void troubles.push(error) }, { fresh });
  await trusted(machine);
  if (troubles.length > 0) throw troubles[0];
}

function pem(name: string): string {
  return `-----BEGIN CERTIFICATE-----\n${name}\n-----END CERTIFICATE-----\n`;
}

/** an authority here is nothing but its certificate */
const networkSecrets: NetworkSecrets = { of: () => ({}), certificateOf: ({ keyMaterial }) => keyMaterial };

function network(certificate: string): CustomNetwork {
  const authority = { keyMaterial: certificate, serial: "" };
  return { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [], authority };
}

/** a machine of nothing but files by their paths */
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
