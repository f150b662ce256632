/**
 * Makes programs in a sandbox trust the right certificates: the host's own roots that images lack, such as a company's,
 * and the authority that signs for hosts with rules. It writes certificates where programs look for roots, and sets
 * variables for programs that look elsewhere. With nothing to trust it does nothing.
 */

import { within } from "../../base/concurrency/waits.ts";
import type { Context, HostRoots, NetworkSecrets } from "../context.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../model/errors.ts";
import { type AuthoritySpec, hasRules, type NetworkPolicy } from "../network/network-policy.ts";
import type { Files, Machine, MachineNetwork } from "../ports/runtime.ts";

/** the bundle that Debian's programs read, and that variables name for most others */
const bundle = "/etc/ssl/certs/ca-certificates.crt";
/** the bundle of Fedora and its relatives */
const otherBundle = "/etc/pki/tls/certs/ca-bundle.crt";
/** folders that tools make bundles from, so that the next bundle has the certificates too */
const anchorFolders = ["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"] as const;
const rootAnchors = anchorFolders.map((folder) => `${folder}/sandkeep-host-roots.crt`);
/** extra certificates for Node: the host's roots, if there is no authority beside them */
export const hostRootsFile = `${anchorFolders[0]}/sandkeep-host-roots.crt`;

/**
 * Node 24 reads certificates when it first needs them, so these variables cost nothing at its start. Node 20 pays 18 ms
 * for NODE_EXTRA_CA_CERTS with one certificate and 38 ms with the bundle, so trustEnvironment() sets the single
 * certificate. For NODE_USE_SYSTEM_CA Node reads the bundle, 25 ms before the first connection. (--use-openssl-ca in
 * NODE_OPTIONS would save that, but a program that sets NODE_OPTIONS would lose it.)
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
 * Variables for programs that ignore the system's bundle: Node, and Python programs with a list of their own. curl,
 * git, Python's own ssl and Java read the files that we write. Node gets two, as a caller may have set the first
 * itself.
 */
const hostEnvironment: Record<string, string> = {
  NODE_EXTRA_CA_CERTS: hostRootsFile,
  NODE_USE_SYSTEM_CA: "1",
  REQUESTS_CA_BUNDLE: bundle,
  SSL_CERT_FILE: bundle,
};

/** variables for commands under this policy, unless the command sets its own */
export function trustEnvironment(
  policy: NetworkPolicy,
  { networkSecrets, hostRoots, sandboxEnv }: Pick<Context, "networkSecrets" | "hostRoots" | "sandboxEnv">,
): Record<string, string> {
  const host = hostRoots ? hostEnvironment : {};
  if (!hasRules(policy)) return { ...host, ...sandboxEnv };
  // With both, the bundle holds both.
  const [anchor] = networkSecrets && !hostRoots ? anchorsOf(networkSecrets) : [];
  return { ...environment, ...(anchor !== undefined && { NODE_EXTRA_CA_CERTS: anchor }), ...sandboxEnv };
}

function anchorsOf({ certificateFile }: NetworkSecrets): string[] {
  return anchorFolders.map((folder) => `${folder}/${certificateFile}`);
}

/** longest duration in ms: the files are the sandbox's, which may try to hold up the work */
const patience = 10_000;
const largestBundle = 8 << 20;

/** delay in ms, so that a create is answered first */
const startDelay = 10;

/** work that is planned or under way: commands wait for it, a create does not */
const installing = new WeakMap<Machine, { begin: () => void; done: Promise<void> }>();

/** resolves when the certificates are installed, or could not be */
export async function trusted(machine: Machine): Promise<void> {
  const work = installing.get(machine);
  work?.begin();
  await work?.done;
}

/**
 * All work happens inside the sandbox, as its root, so links lead to its own files only. A repeated call changes
 * nothing; a fork loses the authority of its origin. `fresh`: the files are those of an image, without an authority of
 * ours. `rooted`: the image was made with the host's roots. If the files cannot be changed, the sandbox still runs,
 * since its policy holds, and `logError` gets the error.
 */
export function beginTrust(
  machine: Machine,
  network: MachineNetwork,
  { networkSecrets, hostRoots, logError }: Pick<Context, "networkSecrets" | "hostRoots" | "logError">,
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
  // In sequence: both write the same files.
  const work = Promise.all([begun, before?.done])
    .then(async () => {
      const installed = installAll(machine.files(), { certificate, roots }, fresh).then(() => true);
      if (!(await within(installed, patience))) throw new Error(`it took longer than ${patience} ms`);
    })
    .catch((cause) => {
      // a machine that has ended needs no certificates
      if (!isSandkeepError(cause, "gone")) {
        const whom = certificate ? "its authority" : "the host's certificates";
        const sentence = `Cannot make "${machine.id}" trust ${whom}: ${messageOf(cause)}`;
        logError(new SandkeepError("internal", sentence, { cause }));
      }
    });
  const mine = { begin, done: Promise.all([before?.done, work]).then(() => undefined) };
  installing.set(machine, mine);
  void mine.done.then(() => {
    if (installing.get(machine) === mine) installing.delete(machine);
  });
}

/** The certificate of a sandbox's authority, and its paths besides the bundle. */
interface Certificate {
  pem: string;
  anchors: string[];
}

function certificateFor(secrets: NetworkSecrets, authority: AuthoritySpec): Certificate {
  return { pem: secrets.certificateOf(authority), anchors: anchorsOf(secrets) };
}

/** in sequence, as both change the bundle */
async function installAll(
  files: Files,
  { certificate, roots }: { certificate: Certificate | undefined; roots: HostRoots | undefined },
  fresh: boolean,
): Promise<void> {
  if (roots) await installRoots(files, roots);
  if (certificate) await install(files, certificate, fresh && !roots);
}

/** Java's key stores, by package; links of the package lead here from other paths */
const javaStores = [
  "/etc/ssl/certs/java/cacerts",
  "/etc/ssl/certs/adoptium/cacerts",
  "/etc/pki/ca-trust/extracted/java/cacerts",
  "/opt/java/openjdk/lib/security/cacerts",
];

/** writes the file of the host's roots last: if it is up to date, so is the rest */
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

/** the bundle without the roots of an earlier start; the label says how many they are */
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

/** appending is cheap, and a concurrent reader sees the bundle with or without the new end */
async function append(files: Files, certificate: string): Promise<void> {
  if (await isFile(files, bundle)) {
    await files.write(bundle, Buffer.from(`\n${label}${certificate}`), { append: true });
  } else {
    await put(files, bundle, withAuthority((await contentOf(files, otherBundle)) ?? "", certificate));
  }
}

/** appends the authority, or replaces the one that is there */
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

/** replaces the file atomically, whatever is there */
async function put(files: Files, path: string, content: string): Promise<void> {
  const draft = `${path}.sandkeep`;
  await files.write(draft, Buffer.from(content, "latin1"), { mode: 0o644, parents: true, replace: true });
  await files.move(draft, path);
}
