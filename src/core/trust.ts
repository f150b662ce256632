/**
 * Makes programs in a sandbox trust the authority that signs for hosts with rules: its certificate goes where programs
 * look for roots, and variables point those there that look elsewhere. Both only when a policy has such rules.
 */

import type { Context } from "./context.ts";
import { isSandkeepError, messageOf, SandkeepError } from "./errors.ts";
import { hasRules, type NetworkPolicy } from "./network-policy.ts";
import type { Files, Machine, MachineNetwork } from "./runtime.ts";

/** what Debian's programs read, and what most others are told to read */
const bundle = "/etc/ssl/certs/ca-certificates.crt";
/** where that of Fedora and its kin is */
const otherBundle = "/etc/pki/tls/certs/ca-bundle.crt";
/** what the tools that make bundles read, so that the next bundle has it too */
const anchors = [
  "/usr/local/share/ca-certificates/vercel-proxy-ca.pem",
  "/etc/pki/ca-trust/source/anchors/vercel-proxy-ca.pem",
] as const;

/**
 * Node 24 reads certificates when it first needs them: these cost nothing at its start, where Node 20 pays 18 ms for
 * NODE_EXTRA_CA_CERTS with one certificate and 38 ms with the bundle. Hence the one certificate there; the bundle is
 * read for NODE_USE_SYSTEM_CA, 25 ms before the first connection. (--use-openssl-ca in NODE_OPTIONS would save those,
 * but whoever sets NODE_OPTIONS would lose it.)
 */
const environment: Record<string, string> = {
  AWS_CA_BUNDLE: bundle,
  CARGO_HTTP_CAINFO: bundle,
  CURL_CA_BUNDLE: bundle,
  GIT_SSL_CAINFO: bundle,
  GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: bundle,
  NODE_EXTRA_CA_CERTS: anchors[0],
  NODE_USE_SYSTEM_CA: "1",
  NPM_CONFIG_CAFILE: bundle,
  PIP_CERT: bundle,
  REQUESTS_CA_BUNDLE: bundle,
  SSL_CERT_FILE: bundle,
};

/** what commands under this policy are given, unless they say otherwise */
export function trustEnvironment(policy: NetworkPolicy): Record<string, string> {
  return hasRules(policy) ? environment : {};
}

/** longest that it may take, in ms: what it reads and writes is the sandbox's, which may not want it to end */
const patience = 10_000;
const largestBundle = 8 << 20;

/** how long it is put off, in ms: a create is to be answered first */
const leisure = 10;

/** to come or under way: a create need not wait for it, a command has to */
const installing = new WeakMap<Machine, { begin: () => void; done: Promise<void> }>();

/** resolves when programs that start now trust whom they are to trust, as far as they ever will */
export async function trusted(machine: Machine): Promise<void> {
  const work = installing.get(machine);
  work?.begin();
  await work?.done;
}

/**
 * Everything happens inside the sandbox, as its root: whatever a link leads to is its own. Asking again changes
 * nothing; a sandbox that was forked loses the authority of its origin. `fresh`: its files are those of an image, which
 * has none of ours. One whose files do not allow it runs all the same, since its policy holds: `trouble` is told.
 */
export function beginTrust(
  machine: Machine,
  network: MachineNetwork,
  { networkSecrets, trouble }: Pick<Context, "networkSecrets" | "trouble">,
  { fresh = false } = {},
): void {
  const authority = typeof network === "object" ? network.authority : undefined;
  if (!authority || !networkSecrets) return;
  const before = installing.get(machine);
  before?.begin();
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, leisure);
  const begin = () => {
    clearTimeout(timer);
    resolve();
  };
  const work = begun
    .then(() => within(patience, install(machine.files(), networkSecrets.certificateOf(authority), fresh)))
    .catch((cause) => {
      // one that has ended meanwhile needs no trust
      if (!isSandkeepError(cause, "gone")) {
        const sentence = `Cannot make "${machine.id}" trust its authority: ${messageOf(cause)}`;
        trouble(new SandkeepError("internal", sentence, { cause }));
      }
    });
  const mine = { begin, done: Promise.all([before?.done, work]).then(() => undefined) };
  installing.set(machine, mine);
  void mine.done.then(() => {
    if (installing.get(machine) === mine) installing.delete(machine);
  });
}

async function install(files: Files, certificate: string, fresh: boolean): Promise<void> {
  const roots = fresh ? "" : ((await contentOf(files, bundle)) ?? "");
  if (roots.includes(certificate)) return;
  const replace = { mode: 0o644, parents: true, replace: true };
  await Promise.all([
    ...anchors.map((path) => files.write(path, Buffer.from(certificate), replace)),
    roots.includes(label) ? put(files, bundle, withAuthority(roots, certificate)) : append(files, certificate),
  ]);
}

const label = "# The authority of this sandbox, for hosts that its network policy has rules for\n";

/** costs little, and whoever reads the bundle at the same time reads it without or with its new end */
async function append(files: Files, certificate: string): Promise<void> {
  if (await isFile(files, bundle)) {
    await files.write(bundle, Buffer.from(`\n${label}${certificate}`), { append: true });
  } else {
    await put(files, bundle, withAuthority((await contentOf(files, otherBundle)) ?? "", certificate));
  }
}

/** at the end, and in the place of one that is there already */
function withAuthority(roots: string, certificate: string): string {
  const others = roots
    .split(label)
    .map((part, at) => (at === 0 ? part : part.replace(/^-----BEGIN [\s\S]*?-----END CERTIFICATE-----\n?/, "")))
    .join("");
  return `${others}\n${label}${certificate}`;
}

async function isFile(files: Files, path: string): Promise<boolean> {
  const info = await files.stat(path).catch(() => undefined);
  return info?.type === "file";
}

async function contentOf(files: Files, path: string): Promise<string | undefined> {
  const info = await files.stat(path).catch(() => undefined);
  if (info?.type !== "file") return undefined;
  if (info.size > largestBundle) throw new Error(`"${path}" has ${info.size} bytes`);
  const chunks: Uint8Array[] = [];
  for await (const chunk of files.read(path, { length: largestBundle })) chunks.push(chunk);
  return Buffer.concat(chunks).toString("latin1");
}

/** whole or not at all, also for whoever reads it at the same time, and in the place of whatever is there */
async function put(files: Files, path: string, content: string): Promise<void> {
  const draft = `${path}.sandkeep`;
  await files.write(draft, Buffer.from(content, "latin1"), { mode: 0o644, parents: true, replace: true });
  await files.move(draft, path);
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took longer than ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
