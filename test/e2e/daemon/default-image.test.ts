/** What programs find in the default image, as the vendor's documents promise: Python, package managers, sudo. */

import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type AnySandbox, accessTo, sdks } from "../clients.ts";

const daemon = daemonOfFile();
let made: AnySandbox | undefined;

/** makes a wheel with one program, without network and build tools */
const wheel = `
import sys, zipfile
name = sys.argv[1]
with zipfile.ZipFile(f"/tmp/{name}-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr(f"{name}.py", f"def main(): print('{name} runs')")
    wheel.writestr(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n")
    wheel.writestr(f"{name}-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{name}-1.dist-info/entry_points.txt", f"[console_scripts]\\n{name} = {name}:main\\n")
    wheel.writestr(f"{name}-1.dist-info/RECORD", "")
`;

/** a repository of one Debian package, libtiny-dev, in place of the distribution's */
const repository = `set -e
mkdir -p /repo/x/DEBIAN /repo/x/opt && cd /repo
printf 'Package: libtiny-dev\\nVersion: 1\\nArchitecture: all\\nMaintainer: x\\nDescription: x\\n' > x/DEBIAN/control
echo here > x/opt/tiny
dpkg-deb --build x tiny.deb >/dev/null
{ cat x/DEBIAN/control; echo Filename: ./tiny.deb; echo Size: $(stat -c %s tiny.deb); echo SHA256: $(sha256sum tiny.deb | cut -d' ' -f1); } > Packages
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/repo ./' > /etc/apt/sources.list
`;

beforeAll(async () => {
  made = await sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), runtime: "node24" });
  await sandbox().writeFiles([{ path: "/tmp/wheel.py", content: Buffer.from(wheel) }]);
});

test("python is Python 3, and pip is there", async () => {
  expect(await sh("python --version; python3 --version")).toMatch(/^Python 3\.\d+\.\d+\nPython 3\.\d+\.\d+\n$/);
  expect(await sh("pip --version; pip3 --version; python -m pip --version")).toMatch(/^(pip \d.*\n){3}$/);
});

test.each([
  ["the plain user", "mine", false],
  ["root", "roots", true],
])("pip of %s installs for all users", async (_, name, sudo) => {
  await sh(`python /tmp/wheel.py ${name}`);
  await sh(`pip install --quiet --no-index /tmp/${name}-1-py3-none-any.whl`, { sudo });
  expect(await sh(`${name}; python -c 'import ${name}; ${name}.main()'`)).toBe(`${name} runs\n${name} runs\n`);
  expect(await sh(name, { sudo: true })).toBe(`${name} runs\n`);
});

test("a virtual environment has a pip of its own", async () => {
  await sh("python -m venv /tmp/venv && python /tmp/wheel.py apart");
  await sh("/tmp/venv/bin/pip install --quiet --no-index /tmp/apart-1-py3-none-any.whl");
  expect(await sh("/tmp/venv/bin/apart; ! command -v apart")).toBe("apart runs\n");
});

test("npm, npx, pnpm and corepack run, and yarn is corepack's", async () => {
  for (const program of ["npm", "npx", "pnpm", "corepack"])
    expect(await sh(`${program} --version`)).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(await sh("readlink -f $(command -v yarn)")).toMatch(/\/corepack\/dist\/yarn\.js\n$/);
  const project = `cd /tmp && mkdir -p app lib && echo '{"name":"lib","version":"1.0.0"}' > lib/package.json
    cd app && echo '{"name":"app"}' > package.json && pnpm add --offline --silent ../lib && cat node_modules/lib/package.json`;
  expect(JSON.parse(await sh(project))).toEqual({ name: "lib", version: "1.0.0" });
});

test("uv fetches itself when it is first called, and says how to get it where PyPI cannot be reached", async () => {
  const asked = await sandbox().runCommand("sh", ["-c", "PIP_RETRIES=0 PIP_TIMEOUT=2 uv --version"]);
  expect(asked.exitCode).toBe(127);
  expect(await asked.stderr()).toMatch(/^uv: Cannot fetch uv from PyPI: .*\nhint: allow pypi.org .*\n$/);
  await sh("python /tmp/wheel.py uv");
  expect(await sh("PIP_NO_INDEX=1 PIP_FIND_LINKS=/tmp uv --version; uv")).toBe("uv runs\nuv runs\n");
});

test("dnf and yum install by the names of Fedora, and refuse unsupported commands with a sentence", async () => {
  await sh(repository, { sudo: true });
  await sh("dnf install -y tiny-devel && test -e /opt/tiny", { sudo: true });
  await sh("sudo yum -y remove tiny-devel && ! test -e /opt/tiny");
  expect(await sh("dnf --version && yum --version")).toMatch(/^4\.14\.0\n {2}a shim onto apt .*\n4\.14\.0\n/);
  expect(await refusalOf("dnf install -y tiny-devel")).toBe(
    "dnf: This command has to be run with superuser privileges (under the root user on most systems).\n",
  );
  expect(await refusalOf("sudo yum history")).toBe(
    'yum: Cannot do "history": yum is a small shim onto apt here; use apt-get\n',
  );
  expect(await refusalOf("sudo dnf install -y https://example.com/x.rpm")).toMatch(
    /^dnf: Cannot install "https:\/\/example.com\/x.rpm": /,
  );
});

test("a command with sudo knows its caller, and both users find /vercel/bin", async () => {
  const told = "echo $SUDO_USER $SUDO_UID $SUDO_GID $HOME $(id -u)";
  expect(await sh(told, { sudo: true })).toBe("vercel-sandbox 1000 1000 /root 0\n");
  expect(await sh(told)).toBe("/home/vercel-sandbox 1000\n");
  for (const sudo of [false, true]) expect((await sh("echo $PATH", { sudo })).split(":")).toContain("/vercel/bin");
});

function sandbox(): AnySandbox {
  if (!made) throw new Error("The sandbox of these tests was not made");
  return made;
}

async function sh(script: string, { sudo = false } = {}): Promise<string> {
  const done = await sandbox().runCommand({ cmd: "sh", args: ["-c", script], sudo });
  if (done.exitCode !== 0) throw new Error(`${script} ended with ${done.exitCode}: ${await done.output("both")}`);
  return done.stdout();
}

async function refusalOf(script: string): Promise<string> {
  const done: Awaited<ReturnType<AnySandbox["runCommand"]>> = await sandbox().runCommand("sh", ["-c", script]);
  expect(done.exitCode).toBe(1);
  return done.stderr();
}
