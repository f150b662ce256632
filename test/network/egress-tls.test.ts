/** Hosts with rules, seen by many kinds of programs in real sandboxes: added headers, trust, logs, hidden secrets. */

import { execFileSync } from "node:child_process";
import { createHash, createPublicKey, verify, X509Certificate } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type AnySandbox, accessTo, createUnder, type Policy, raw, sandboxOf, sdks } from "../e2e/clients.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { openInternet } from "../internet/internet.ts";
import { startDaemonOn, startTlsServers } from "../internet/internet-daemon.ts";
import { has, needs } from "../runner/needs.ts";

const { Sandbox } = sdks["3.5.0"];
const secret = "s3cr3t-0f-the-0wner";
const site = "https://web.test:8443";
const bundle = "/etc/ssl/certs/ca-certificates.crt";
const anchor = "/usr/local/share/ca-certificates/vercel-proxy-ca.pem";
const rules = {
  allow: {
    "web.test": [
      { match: { path: { startsWith: "/plain" } }, transform: [{ headers: {} }] },
      {
        match: { path: { exact: "/fixed" } },
        response: { statusCode: 418, body: "teapot", contentType: "text/plain" },
      },
      { match: { path: { startsWith: "/forward" } }, forwardURL: "http://other.test:8081/proxy" },
      { transform: [{ headers: { "X-Secret": secret } }] },
    ],
    "other.test": [],
  },
};

const undo = new AsyncDisposableStack();
let daemon: TestDaemon;

beforeAll(async () => {
  if (!has("root")) return;
  const internet = await openInternet(undo);
  await startTlsServers(internet, undo);
  daemon = await startDaemonOn(internet, undo);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command curl"));

describe("a program that trusts what its system trusts", () => {
  const sandbox = sandboxOf(() => create(rules));
  const asked = (text: string) => JSON.parse(text.slice(text.indexOf("{")));

  test.each([
    ["HTTP/1.1", "--http1.1", "1.1"],
    ["HTTP/2", "--http2", "2.0"],
  ])("curl over %s", async (_, flag, version) => {
    const text = await run(sandbox(), "curl", ["-sS", flag, "-H", "x-secret: mine", `${site}/a?b=c`]);
    expect(asked(text)).toMatchObject({ method: "GET", url: "/a?b=c", version, headers: { "x-secret": secret } });
  });

  test("node's fetch and WebSocket", async () => {
    const code = `
      const text = await (await fetch("${site}/node", { method: "POST", body: "x" })).text();
      const socket = new WebSocket("wss://web.test:7444/ws");
      const heard = [];
      await new Promise((resolve, reject) => {
        socket.onerror = () => reject(new Error("WebSocket failed"));
        socket.onmessage = ({ data }) => {
          heard.push(data);
          if (heard.length === 1) socket.send("again"); else resolve();
        };
      });
      console.log(JSON.stringify({ ...JSON.parse(text), heard }));
      process.exit(0)`;
    const text = await run(sandbox(), "node", ["--input-type=module", "-e", code]);
    expect(asked(text)).toMatchObject({
      method: "POST",
      headers: { "x-secret": secret },
      heard: [`hello ${secret}`, "again"],
    });
  });

  test("python's urllib, without any setting", async (context) => {
    needs(context, "the command python3");
    const code = `import urllib.request; print(urllib.request.urlopen("${site}/py").read().decode())`;
    expect(asked(await run(sandbox(), "/usr/bin/python3", ["-c", code]))).toMatchObject({
      headers: { "x-secret": secret },
    });
    const bare = ["-i", "PATH=/usr/bin:/bin", "/usr/bin/python3", "-c", code];
    expect(asked(await run(sandbox(), "env", bare))).toMatchObject({ url: "/py" });
  });

  test("git", async (context) => {
    needs(context, "the command git");
    expect(await run(sandbox(), "git", ["ls-remote", `${site}/repo.git`])).toContain(`refs/heads/${secret}`);
  });

  test("bodies of megabytes pass whole, up and down", async () => {
    const script = `
      head -c 24000000 /dev/zero > /tmp/up
      for v in 1.1 2; do
        curl -sS --http$v -T /tmp/up ${site}/upload; echo
        curl -sS --http$v ${site}/download | sha256sum
      done`;
    const zeros = createHash("sha256").update(Buffer.alloc(24_000_000)).digest("hex");
    const block = createHash("sha256")
      .update(Buffer.alloc(16 << 20, "d"))
      .digest("hex");
    expect((await run(sandbox(), "bash", ["-c", script])).split("\n")).toMatchObject([
      zeros,
      `${block}  -`,
      zeros,
      `${block}  -`,
      "",
    ]);
  });

  test("gets a fixed answer, and an error for a host whose certificate is not valid", async () => {
    expect(await run(sandbox(), "curl", ["-sS", "-w", " %{http_code}", `${site}/fixed`])).toBe("teapot 418");
    const text = await run(sandbox(), "curl", ["-sS", "-w", "%{http_code}", "https://web.test:9443/"]);
    expect(text).toMatch(/^Cannot reach "web.test": its certificate is not valid: .+\n502$/);
    const misdirected = ["-sS", "-w", "%{http_code}", "-H", "host: other.test", `${site}/`];
    expect(await run(sandbox(), "curl", misdirected)).toMatch(/421$/);
  });

  test("is forwarded with a token that the daemon vouches for", async () => {
    const text = await run(sandbox(), "curl", ["-sS", `${site}/forward/me?now=1`]);
    const { url, headers } = asked(text);
    expect(url).toBe("/proxy");
    expect(headers).toMatchObject({
      "vercel-forwarded-host": "web.test",
      "vercel-forwarded-port": "8443",
      "vercel-forwarded-path": "/forward/me?now=1",
    });
    const [header = "", claims = "", signature = ""] = headers["vercel-sandbox-oidc-token"].split(".");
    const { keys } = (await raw(daemon, "GET", "/.well-known/jwks")).json;
    const key = createPublicKey({ format: "jwk", key: keys[0] });
    expect(verify("sha256", Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, "base64url"))).toBe(true);
    expect(JSON.parse(Buffer.from(claims, "base64url").toString())).toMatchObject({
      aud: "http://other.test:8081/proxy",
      team_id: "team_default",
      project_id: "prj_default",
      sandbox_id: sandbox().currentSession().sessionId,
      sandbox_name: sandbox().name,
    });
  });

  test("TLS to hosts without rules is not opened", async () => {
    const subject = ["-sk", "-o", "/dev/null", "-w", "%{certs}", "https://other.test:8443/"];
    const text = await run(sandbox(), "curl", subject);
    expect(text).not.toContain(await issuerOf(sandbox()));
    expect(asked(await run(sandbox(), "curl", ["-sk", "https://other.test:8443/"])).headers).not.toHaveProperty(
      "x-secret",
    );
  });
});

describe("the authority", () => {
  test("is present only while there are rules, also if they come later, and its variables go with them", async () => {
    const sandbox = await create({ allow: ["web.test"] });
    const look = () =>
      run(sandbox, "sh", ["-c", `env | grep -c -E 'CA_|CAFILE|CERT|CAINFO|_CA|ROOTS'; cat ${anchor}`], true);
    // The host of these tests trusts a certificate that no image has, so four variables are set.
    expect(await look()).toBe("4\n");
    await sandbox.updateNetworkPolicy(rules);
    const [count, ...pem] = (await look()).split("\n");
    expect(count).toBe("11");
    expect(new X509Certificate(pem.join("\n")).ca).toBe(true);
    const text = await run(sandbox, "curl", ["-sS", `${site}/later`]);
    expect(JSON.parse(text).headers["x-secret"]).toBe(secret);
    await sandbox.updateNetworkPolicy({ allow: ["web.test"] });
    expect((await look()).split("\n")[0]).toBe("4");
    await sandbox.delete();
  });

  test("stays the same after a stop and a restart of the daemon, and differs in a fork", async () => {
    const sandbox = await create(rules, true);
    const before = await run(sandbox, "cat", [anchor]);
    await sandbox.stop();
    await daemon.stop();
    await daemon.start();
    const again = await Sandbox.get({ ...accessTo(daemon), name: sandbox.name, resume: true });
    const fork = await Sandbox.fork({ ...accessTo(daemon), sourceSandbox: sandbox.name });
    const [first, second] = [before, await run(again, "cat", [anchor])].map((pem) => new X509Certificate(pem));
    expect(second?.subject).toBe(first?.subject);
    expect(second?.publicKey.equals(first?.publicKey ?? second.publicKey)).toBe(true);
    const other = await run(fork, "cat", [anchor]);
    expect(other).not.toBe(before);
    const roots = await run(fork, "cat", [bundle]);
    expect(roots).toContain(other);
    expect(roots).not.toContain(before);
    for (const each of [again, fork]) {
      const { headers } = JSON.parse(await run(each, "curl", ["-sS", `${site}/`]));
      expect(headers["x-secret"]).toBe(secret);
    }
    await Promise.all([again.delete(), fork.delete()]);
  });

  test("is installed whatever a hostile root has put in its place", async () => {
    const sandbox = await create({ allow: ["web.test"] });
    const traps = `
      mkdir -p ${anchor.replace(/[^/]*$/, "")} /etc/pki/ca-trust/source/anchors
      ln -s /etc/hostname ${anchor}; mkfifo /etc/pki/ca-trust/source/anchors/vercel-proxy-ca.pem
      ln -s /etc/hostname ${anchor}.sandkeep; mkfifo ${bundle}.sandkeep; cp /etc/hostname /tmp/before`;
    await run(sandbox, "sudo", ["bash", "-c", traps]);
    await sandbox.updateNetworkPolicy(rules);
    await run(sandbox, "cmp", ["/etc/hostname", "/tmp/before"]);
    expect(
      await run(sandbox, "stat", ["-c", "%F", anchor, "/etc/pki/ca-trust/source/anchors/vercel-proxy-ca.pem"]),
    ).toBe("regular file\nregular file\n");
    expect(JSON.parse(await run(sandbox, "curl", ["-sS", `${site}/`])).headers["x-secret"]).toBe(secret);
    await sandbox.updateNetworkPolicy({ allow: ["web.test"] });
    // With a bundle that cannot be replaced, only the trust is missing.
    await run(sandbox, "sudo", ["bash", "-c", `rm ${bundle}; mkdir ${bundle}`]);
    await sandbox.updateNetworkPolicy(rules);
    expect(await run(sandbox, "curl", ["-sS", "-k", `${site}/`])).toContain(secret);
    await sandbox.delete();
  });
});

test("the secret is only on the wire: not on disk, in a list of processes, inside, in an answer or in a log", async () => {
  const sandbox = await create(rules);
  // The server that the secret is for may see it; this one does not print it.
  await run(sandbox, "curl", ["-sS", "-o", "/dev/null", `${site}/upload`]);
  const { sessionId } = sandbox.currentSession();
  const session = (await raw(daemon, "GET", `/v2/sandboxes/sessions/${sessionId}?teamId=team_default`)).text;
  const named = (await raw(daemon, "GET", `/v2/sandboxes/${sandbox.name}?teamId=team_default&projectId=prj_default`))
    .text;
  expect(session).toContain("X-Secret");
  expect(session + named + JSON.stringify(sandbox.networkPolicy)).not.toContain(secret);
  const inside = `
    { cat /proc/*/environ /proc/*/cmdline; grep -rsl -- "$0" /etc /home /tmp /run /var /vercel /root; } 2>/dev/null | tr '\\0' '\\n'
    echo searched`;
  const found = await run(sandbox, "sudo", ["bash", "-c", inside, secret.slice(0, 6)]);
  expect(found).toContain("searched");
  expect(found).not.toContain(secret);
  expect(daemon.complaints()).not.toContain(secret);
  for (const needle of [secret, Buffer.from(secret).toString("base64").slice(0, 20)]) {
    expect(filesWith(daemon.dataDir, needle)).toEqual([]);
    expect(processesWith(needle)).toEqual([]);
  }
  // The search finds a text that is there.
  expect(filesWith(daemon.dataDir, "X-Secret").length).toBeGreaterThan(0);
  await sandbox.delete();
});

function create(networkPolicy: Policy, persistent = false): Promise<AnySandbox> {
  return createUnder(daemon, networkPolicy, persistent);
}

async function run(
  sandbox: Pick<AnySandbox, "runCommand">,
  name: string,
  args: string[],
  mayFail = false,
): Promise<string> {
  const command = await sandbox.runCommand(name, args);
  const [stdout, stderr] = await Promise.all([command.stdout(), command.stderr()]);
  if (command.exitCode !== 0 && !mayFail)
    throw new Error(`${name} ended with ${command.exitCode}: ${stderr} ${stdout}`);
  return stdout;
}

async function issuerOf(sandbox: AnySandbox): Promise<string> {
  return new X509Certificate(await run(sandbox, "cat", [anchor])).subject.replace("CN=", "");
}

/** files below a directory that contain the text; files of sandboxes are in a large image, and searched inside */
function filesWith(directory: string, text: string): string[] {
  const search = `find "$0" -type f -size -256M -print0 | xargs -0 grep -laF -- "$1" || true`;
  const found = execFileSync("sh", ["-c", search, directory, text], { encoding: "utf8" });
  return found.split("\n").filter((file) => file !== "");
}

/** processes of the whole machine whose command line or environment contains it, without those of this test */
function processesWith(text: string): string[] {
  const pids = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid);
  return pids.filter((pid) => ["cmdline", "environ"].some((file) => read(`/proc/${pid}/${file}`).includes(text)));
}

/** empty if the process is gone */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
