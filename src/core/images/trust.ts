/**
 * Makes programs in a sandbox trust whom they are to trust: the certificates that the host believes and images do not
 * know, such as a company's, and the authority that signs for hosts with rules. Certificates go where programs look for
 * roots, and variables point those there that look elsewhere. Nothing happens where there is nothing of this to trust.
 */

import { within } from "../../base/waits.ts";
import type { Context, HostRoots, NetworkSecrets } from "../context.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../model/errors.ts";
import { type AuthoritySpec, hasRules, type NetworkPolicy } from "../network/network-policy.ts";
import type { Files, Machine, MachineNetwork } from "../ports/runtime.ts";

/** what Debian's programs read, and what most others are told to read */
const bundle = "/etc/ssl/certs/ca-certificates.crt";
/** where that of Fedora and its kin is */
const otherBundle = "/etc/pki/tls/certs/ca-bundle.crt";
/** what the tools that make bundles read, so that the next bundle has it too */
const anchorFolders = ["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"] as const;
const rootAnchors = anchorFolders.map((folder) => `${folder}/sandkeep-host-roots.crt`);
/** what Node reads besides its own: the host's roots, where no authority is beside them */
export const hostRootsFile = `${anchorFolders[0]}/sandkeep-host-roots.crt`;

/**
 * Node 24 reads certificates when it first needs them: these cost nothing at its start, where Node 20 pays 18 ms for
 * NODE_EXTRA_CA_CERTS with one certificate and 38 ms with the bundle. Hence trustEnvironment() puts the one certificate
 * there; the bundle is read for NODE_USE_SYSTEM_CA, 25 ms before the first connection. (--use-openssl-ca in NODE_OPTIONS
 * would save those, but whoever sets NODE_OPTIONS would lose it.)
 */
const environment: Record<string, string> = {
  AWS_CA_BUNDLE: bundle,
  CARGO_HTTP_CAINFO: bundle,
  CURL_CA_BUNDLE: bundle,
  GIT_SSL_CAINFO: bundle,
  GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: bundle,
  NODE_EXTRA_CA_CERTS: bundle,
  NODE_USE_SYSTEM_CA: "1",
  NPM_CONFIG_CAFILE: bundle,
  PIP_CERT: bundle,
  REQUESTS_CA_BUNDLE: bundle,
  SSL_CERT_FILE: bundle,
};

/**
 * What programs need that do not look at the system's bundle: Node, and those of Python that bring a list of their own.
 * curl, git, Python's own ssl and Java look where we write. Node has two, as a caller may have set the first for itself.
 */
const hostEnvironment: Record<string, string> = {
  NODE_EXTRA_CA_CERTS: hostRootsFile,
  NODE_USE_SYSTEM_CA: "1",
  REQUESTS_CA_BUNDLE: bundle,
  SSL_CERT_FILE: bundle,
};

/** what commands under this policy are given, unless they say otherwise */
export function trustEnvironment(
  policy: NetworkPolicy,
  { networkSecrets, hostRoots, sandboxEnv }: Pick<Context, "networkSecrets" | "hostRoots" | "sandboxEnv">,
): Record<string, string> {
  const host = hostRoots ? hostEnvironment : {};
  if (!hasRules(policy)) return { ...host, ...sandboxEnv };
  // One file for both, where there are both.
  const [anchor] = networkSecrets && !hostRoots ? anchorsOf(networkSecrets) : [];
  return { ...environment, ...(anchor !== undefined && { NODE_EXTRA_CA_CERTS: anchor }), ...sandboxEnv };
}

function anchorsOf({ certificateFile }: NetworkSecrets): string[] {
  return anchorFolders.map((folder) => `${folder}/${certificateFile}`);
}

/** longest that it may take, in ms: what it reads and writes is the sandbox's, which may not want it to end */
const patience = 10_000;
const largestBundle = 8 << 20;

/** how long it is put off, in ms: a create is to be answered first */
const startDelay = 10;

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
 * has no authority of ours; `rooted`: it was made with the host's roots. One whose files do not allow it runs all the
 * same, since its policy holds: `trouble` is told.
 */
export function beginTrust(
  machine: Machine,
  network: MachineNetwork,
  { networkSecrets, hostRoots, trouble }: Pick<Context, "networkSecrets" | "hostRoots" | "trouble">,
  { fresh = false, rooted = false } = {},
): void {
  const authority = typeof network === "object" ? network.authority : undefined;
  const certificate = authority && networkSecrets && certificateFor(networkSecrets, authority);
  const roots = rooted ? undefined : hostRoots;
  if (!certificate && !roots) return;
  const before = installing.get(machine);
  before?.begin();
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, startDelay);
  const begin = () => {
    clearTimeout(timer);
    resolve();
  };
  // One after the other: both write the same files.
  const work = Promise.all([begun, before?.done])
    .then(async () => {
      const installed = installAll(machine.files(), { certificate, roots }, fresh).then(() => true);
      if (!(await within(installed, patience))) throw new Error(`it took longer than ${patience} ms`);
    })
    .catch((cause) => {
      // one that has ended meanwhile needs no trust
      if (!isSandkeepError(cause, "gone")) {
        const whom = certificate ? "its authority" : "the host's certificates";
        const sentence = `Cannot make "${machine.id}" trust ${whom}: ${messageOf(cause)}`;
        trouble(new SandkeepError("internal", sentence, { cause }));
      }
    });
  const mine = { begin, done: Promise.all([before?.done, work]).then(() => undefined) };
  installing.set(machine, mine);
  void mine.done.then(() => {
    if (installing.get(machine) === mine) installing.delete(machine);
  });
}

/** That of a sandbox's authority, and where it goes besides the bundle. */
interface Certificate {
  pem: string;
  anchors: string[];
}

function certificateFor(secrets: NetworkSecrets, authority: AuthoritySpec): Certificate {
  return { pem: secrets.certificateOf(authority), anchors: anchorsOf(secrets) };
}

/** one after the other, as both change the bundle */
async function installAll(
  files: Files,
  { certificate, roots }: { certificate: Certificate | undefined; roots: HostRoots | undefined },
  fresh: boolean,
): Promise<void> {
  if (roots) await installRoots(files, roots);
  if (certificate) await install(files, certificate, fresh && !roots);
}

/** where Java keeps its list, by who packages it; one below another path is found through a link of the package's */
const javaStores = [
  "/etc/ssl/certs/java/cacerts",
  "/etc/ssl/certs/adoptium/cacerts",
  "/etc/pki/ca-trust/extracted/java/cacerts",
  "/opt/java/openjdk/lib/security/cacerts",
];

/** the file of the host's roots comes last: where it is as it should be, so is the rest */
async function installRoots(files: Files, roots: HostRoots): Promise<void> {
  if ((await contentOf(files, hostRootsFile)) === roots.pem) return;
  const there = withoutRoots((await contentOf(files, bundle)) ?? (await contentOf(files, otherBundle)) ?? roots.bundle);
  const missing = roots.pems.filter((pem) => !there.includes(pem.trim()));
  if (missing.length > 0 || there === roots.bundle) {
    await put(files, bundle, `${there}\n# ${missing.length}${rootsLabel}${missing.join("")}`);
  }
  await Promise.all(javaStores.map((path) => addToJava(files, path, roots)));
  await Promise.all(
    rootAnchors.map((path) => files.write(path, Buffer.from(roots.pem), { mode: 0o644, parents: true, replace: true })),
  );
}

async function addToJava(files: Files, path: string, roots: HostRoots): Promise<void> {
  const store = await contentOf(files, path);
  const changed = store === undefined ? undefined : roots.addToJava(Buffer.from(store, "latin1"));
  if (changed) await put(files, path, Buffer.from(changed).toString("latin1"));
}

const rootsLabel = " certificates that the host of this sandbox believes\n";

/** the bundle without what an earlier start has put there; its label says how many those are */
function withoutRoots(text: string): string {
  const [before = "", ...parts] = text.split(new RegExp(`\n# (?=\\d+${rootsLabel})`));
  const rest = parts.map((part) => {
    const count = Number.parseInt(part, 10);
    const end = "-----END CERTIFICATE-----\n";
    return part.split(end).slice(count).join(end);
  });
  return [before, ...rest].join("");
}

async function install(files: Files, { pem, anchors }: Certificate, fresh: boolean): Promise<void> {
  const roots = fresh ? "" : ((await contentOf(files, bundle)) ?? "");
  if (roots.includes(pem)) return;
  const replace = { mode: 0o644, parents: true, replace: true };
  await Promise.all([
    ...anchors.map((path) => files.write(path, Buffer.from(pem), replace)),
    roots.includes(label) ? put(files, bundle, withAuthority(roots, pem)) : append(files, pem),
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
