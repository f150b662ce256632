/** A real registry for tests and benchmarks: docker-registry on loopback, with TLS and a password by default. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Undo } from "../harness.ts";

const run = promisify(execFile);

export interface RegistryOfTest {
  /** the first part of its images' names */
  host: string;
  user: string;
  password: string;
  /** the path of the certificate to trust */
  ca: string;
  /** a folder for files of tests */
  folder: string;
  /** its log, which contains every request */
  log(): string;
  /** copies an image into it; `from` is a name for skopeo, such as oci:/folder:tag */
  push(from: string, name: string, ...options: string[]): Promise<void>;
}

/** of the password below, as htpasswd -B writes it */
const users = "tester:$2y$05$abcdefghijklmnopqrstuuzN6p/Ww7Qzo8QXBQ7XjnndrNLHWr8.6\n";

export async function startRegistry(undo: Undo, { isOpen = false } = {}): Promise<RegistryOfTest> {
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-registry-"));
  undo.defer(() => rm(folder, { recursive: true, force: true }));
  const certificates = join(folder, "certificates");
  await mkdir(certificates);
  const ca = join(certificates, "ca.crt");
  const key = join(folder, "key.pem");
  if (!isOpen) {
    const subject = ["-subj", "/CN=registry of a test", "-addext", "subjectAltName=IP:127.0.0.1"];
    await run("openssl", [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "2",
      ...subject,
      "-keyout",
      key,
      "-out",
      ca,
    ]);
  }
  await writeFile(join(folder, "users"), users);
  const secure = isOpen ? {} : { tls: { certificate: ca, key } };
  const config = {
    version: 0.1,
    log: { level: "info" },
    storage: { filesystem: { rootdirectory: join(folder, "data") } },
    http: { addr: "127.0.0.1:0", ...secure },
    ...(!isOpen && { auth: { htpasswd: { realm: "test", path: join(folder, "users") } } }),
  };
  // JSON is valid YAML.
  await writeFile(join(folder, "config.yml"), JSON.stringify(config));
  const child = spawn("docker-registry", ["serve", join(folder, "config.yml")], { stdio: ["ignore", "pipe", "pipe"] });
  undo.defer(() => end(child));
  let log = "";
  const host = await new Promise<string>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`docker-registry has ended: ${log}`)));
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        log += text;
        const [, found] = /listening on (127\.0\.0\.1:\d+)/.exec(log) ?? [];
        if (found !== undefined) resolve(found);
      });
    }
  });
  const [user, password] = ["tester", "pull-password"];
  const access = isOpen
    ? ["--dest-tls-verify=false"]
    : ["--dest-creds", `${user}:${password}`, "--dest-cert-dir", certificates];
  return {
    host,
    user,
    password,
    ca,
    folder,
    log: () => log,
    push: async (from, name, ...options) => {
      await run("skopeo", ["copy", "--insecure-policy", ...access, ...options, from, `docker://${host}/${name}`]);
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}
