/** Images that a real daemon builds from Dockerfiles, in sandboxes, and that other tools read. */

import { execFile, spawn } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { pack } from "tar-stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually, tempDir } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { demand } from "../../runner/needs.ts";
import { accessTo, sdks } from "../clients.ts";

demand("the command skopeo", "the guest binary");

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
let folder = "";
afterAll(() => undo.disposeAsync());
beforeAll(async () => {
  folder = await tempDir(undo);
  await project("tool", {
    Dockerfile: `ARG BASE=host
FROM $BASE AS build
USER root
ARG WHO=nobody
WORKDIR /src
COPY src/ .
RUN mkdir /out && cc -static -DWHO="\\"$WHO\\"" -o /out/out hello.c
RUN cd /out && chown 7:8 out && chmod 4755 out && ln out again
FROM scratch
COPY --from=build /out /bin/
COPY --chown=5:6 --chmod=640 <<EOF /etc/motd
made for \${WHO:-all}
EOF
ENV GREETING=hi
LABEL org.example.made="here"
EXPOSE 80
WORKDIR /srv
ENTRYPOINT ["/bin/out"]
CMD ["there"]
`,
    "src/hello.c": `#include <stdio.h>
int main(int n, char **v) { printf("hello %s from %s\\n", n > 1 ? v[1] : "", WHO); return 0; }
`,
    "src/secret.txt": "not for the image\n",
    ".dockerignore": "**/secret*\n",
  });
});

test("a Dockerfile with stages becomes an image that sandboxes boot from", async () => {
  const built = await build("tool", "-t", "hello:1", "--build-arg", "WHO=me");
  expect(built.stdout).toMatch(/^hello:1 {2}sha256:[0-9a-f]{64}\n$/);
  expect(built.stderr).toContain("[build 4/14] COPY src/ .");
  expect(built.stderr).not.toContain("cached");
  const sandbox = await sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), image: "hello:1" });
  const ended = await sandbox.runCommand("/bin/again", ["world"]);
  expect(await ended.stdout()).toBe("hello world from me\n");
  expect((await sandbox.readFileToBuffer({ path: "/etc/motd" }))?.toString()).toBe("made for all\n");
  await sandbox.stop();
  expect(await machines()).toEqual([]);
});

test("files are put where Docker's documents say, and steps run as the user and in the directory that the file says", async () => {
  await project("places", {
    Dockerfile: `FROM host AS odd
USER root
RUN mkdir /odd && cd /odd && python3 -c 'import os; open(b"caf\\xe9", "w"); os.setxattr(b"caf\\xe9", "user.raw", b"\\xff\\0")'
FROM host
USER root
WORKDIR /w/there
WORKDIR ..
COPY a.txt there
COPY a.txt new/name
COPY dir copied
COPY *.txt many/
ADD bundle.tar.gz unpacked
ADD plain.gz kept/
COPY --chown=1000:7 --chmod=0750 dir owned/
COPY link linked/
SHELL ["/bin/bash", "-euc"]
COPY --from=odd /odd /odd
COPY odd /odd
RUN python3 -c 'import os; print(sorted(os.listdir(b"/odd")), os.getxattr(b"/odd/caf\\xe9", "user.raw"))'
RUN test "$(pwd)" = /w && find . -type f | sort | xargs stat -c '%n %a %u:%g' > /facts && cat /facts
ENV NAME=value
RUN echo 'extra:x:777:' >> /etc/group
USER 1000:extra
WORKDIR /w/mine
RUN touch made && id -u && stat -c %u:%g . made && echo $NAME
`,
    "a.txt": "a",
    "b.txt": "b",
    "dir/sub/c": "c",
  });
  const at = join(folder, "places");
  await run(
    "sh",
    ["-c", "chmod 600 a.txt && ln -s dir link && tar -czf bundle.tar.gz dir && gzip -c a.txt > plain.gz"],
    { cwd: at },
  );
  await mkdir(join(at, "odd"));
  await writeFile(Buffer.from(`${at}/odd/\xff`, "latin1"), "");
  const { stderr } = await build("places", "--network", "none");
  // Names that are no text and attributes of any bytes stay what they are.
  expect(stderr).toContain(`[b'caf\\xe9', b'\\xff'] b'\\xff\\x00'`);
  expect(stderr).toContain(`./copied/sub/c 644 0:0
./kept/plain.gz 644 0:0
./linked/sub/c 644 0:0
./many/a.txt 600 0:0
./many/b.txt 644 0:0
./new/name 600 0:0
./owned/sub/c 750 1000:7
./there/a.txt 600 0:0
./unpacked/dir/sub/c 644 0:0
`);
  expect(stderr).toContain("\n1000\n1000:777\n1000:777\nvalue\n");
});

test("all files of a stage are copied, without what is mounted in its sandbox", async () => {
  await project("whole", {
    Dockerfile: `FROM scratch AS all
COPY --chown=5:6 a.txt /dir/
FROM host AS shown
USER root
COPY --from=all / /whole
RUN cd /whole && stat -c '%n %u:%g' dir/a.txt && ls
FROM scratch
COPY --from=all / /
`,
    "a.txt": "a",
  });
  const { stderr } = await build("whole", "--network", "none", "--target", "shown");
  expect(stderr).toMatch(/\ndir\/a.txt 5:6\n/);
  expect(stderr).not.toMatch(/\n(dev|proc|sys)\n/);
  await build("whole", "--network", "none", "-t", "whole:1");
  expect(await listing("whole:1")).toContain("dir/a.txt ");
});

test("of two builds of the same step at once, one makes it and the other waits for it", async () => {
  await project("twins", { Dockerfile: "FROM host\nRUN sleep 2; echo ma''de\n" });
  const twins = await Promise.all(["twin:1", "twin:2"].map((name) => build("twins", "-t", name)));
  const said = twins.map(({ stderr }) => stderr).join("");
  expect([said.match(/^made$/gm), said.match(/cached/g)]).toEqual([["made"], ["cached"]]);
});

test("a build whose image would exceed the disk that the team's images may use is refused until the quota allows it", async () => {
  const quota = async (limits?: object) => {
    const headers = { authorization: `Bearer ${daemon().key}`, "content-type": "application/json" };
    const how = limits ? { method: "PUT", body: JSON.stringify(limits) } : {};
    const response = await fetch(`${daemon().url}/sandkeep/v1/quota`, { headers, ...how });
    return ((await response.json()) as { use: { imageDisk: number } }).use;
  };
  const large = await tarOf({ Dockerfile: "FROM host\nRUN head -c 32000000 /dev/urandom > large" });
  const built = async (name: string, tar: Buffer) => (await post(`?name=${name}`, tar)).text();
  await quota({ imageDisk: (await quota()).imageDisk + 16 });
  expect(await built("quota:1", large)).toMatch(/Cannot make the image: the team's images may use \d+ MiB of the disk/);
  expect(await built("quota:2", await tarOf({ Dockerfile: "FROM host\nENV A=b" }))).toContain('"type":"built"');
  await quota({});
  expect(await built("quota:1", large)).toContain('"type":"built"');
});

test("a key builds only as far as its limits reach", async () => {
  const key = async (limits: object) => {
    const headers = { authorization: `Bearer ${daemon().key}`, "content-type": "application/json" };
    const body = JSON.stringify({ name: "limited", ...limits });
    const response = await fetch(`${daemon().url}/sandkeep/v1/keys`, { method: "POST", headers, body });
    return ((await response.json()) as { secret: string }).secret;
  };
  const tar = await tarOf({ Dockerfile: "FROM host\nENV A=b" });
  expect((await post("", tar, await key({ readOnly: true }))).status).toBe(403);
  const ceiling = await key({ policyCeiling: "deny-all" });
  expect((await post("", tar, ceiling)).status).toBe(200);
  expect((await post("?network=allow-all", tar, ceiling)).status).toBe(403);
  // A team lists the host's images too, and deletes its own.
  const images = (how: object, name = "", secret = daemon().key) =>
    fetch(`${daemon().url}/sandkeep/v1/images${name}`, { headers: { authorization: `Bearer ${secret}` }, ...how });
  const listed = async () => ((await (await images({})).json()) as { images: { name: string; own: boolean }[] }).images;
  expect(await listed()).toContainEqual(expect.objectContaining({ name: "host", own: false }));
  expect(await listed()).toContainEqual(expect.objectContaining({ name: "twin:2", own: true }));
  expect((await images({ method: "DELETE" }, "?name=twin:2", await key({ readOnly: true }))).status).toBe(403);
  for (const [name, status] of [
    ["twin:2", 204],
    ["twin:2", 404],
    ["host", 404],
    ["~x~y", 404],
  ] as const) {
    expect((await images({ method: "DELETE" }, `?name=${name}`)).status, name).toBe(status);
  }
  expect((await images({ method: "DELETE" })).status).toBe(400);
  expect((await listed()).map(({ name }) => name)).not.toContain("twin:2");
});

test("steps that were built before are used again until something that they depend on changes", async () => {
  const again = await build("tool", "-t", "hello:2", "--build-arg", "WHO=me");
  expect(again.stderr.match(/cached/g)).toHaveLength(7);
  const other = await build("tool", "-t", "hello:3", "--build-arg", "WHO=you");
  expect(other.stderr.match(/cached/g)).toHaveLength(2);
  const none = await build("tool", "--no-cache", "--target", "build", "--build-arg", "WHO=me", "--progress", "json");
  const lines = none.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.filter(({ type }) => type === "cached")).toEqual([]);
  expect(lines.at(-1)).toEqual({ type: "built", image: null });
});

test("files that are left out of the context cannot be copied", async () => {
  await writeFile(join(folder, "tool", "other"), "FROM host\nCOPY src/secret.txt /\n");
  const failed = await build("tool", "-f", join(folder, "tool", "other")).catch((error) => error);
  expect(failed.stderr).toContain('line 2: COPY src/secret.txt /: "src/secret.txt" names nothing that can be copied');
});

test("a failed step reports its line, its exit code and its last output", async () => {
  await project("broken", {
    Dockerfile: "FROM host\nRUN echo before\nRUN echo no such thing >&2; exit 7\nRUN never\n",
  });
  const failed = await build("broken", "-t", "broken").catch((error) => error);
  expect(failed.code).toBe(1);
  const why = "line 3: RUN echo no such thing >&2; exit 7: it ended with exit code 7. It said last:\nno such thing\n";
  expect(failed.stderr).toContain(`sandkeep: Cannot build the image: ${why}`);
  expect(failed.stderr).not.toContain("RUN never");
  const gone = await sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), image: "broken" }).catch((error) => error);
  expect(String(gone)).toContain("broken");
  expect(await machines()).toEqual([]);
});

test("unsupported instructions and missing images are refused before anything runs", async () => {
  const refused = async (text: string) => {
    const response = await post("", await tarOf({ Dockerfile: text }));
    return `${response.status} ${await sentenceOf(response)}`;
  };
  expect(await refused("FROM host\nHEALTHCHECK CMD x")).toBe(
    "400 Cannot build from the Dockerfile: line 2: HEALTHCHECK is not supported",
  );
  expect(await refused("FROM nowhere:1\nRUN x")).toBe(
    '400 Invalid request: image "nowhere:1" is not here. Pull it with `sandkeep image pull nowhere:1`, or import it with `sandkeep image import`.',
  );
  expect(await refused("FROM host\nENV X=$" + "{Y:?set it}")).toContain("400 Cannot build from the Dockerfile: line 2");
  expect((await post("?network=no%20way", await tarOf({ Dockerfile: "FROM host" }))).status).toBe(400);
  for (const name of ["NO", "host"]) {
    const response = await post(`?name=${name}`, await tarOf({ Dockerfile: "FROM host\nRUN sleep 1000" }));
    expect(response.status, name).toBe(400);
  }
});

test("a hostile context is refused, and its links lead nowhere outside of it", async () => {
  const up = await post("", await tarOf({ Dockerfile: "FROM host", "../../etc/x": "x" }));
  expect([up.status, await sentenceOf(up)]).toEqual([
    400,
    'Cannot take the build context: "../../etc/x" has ".." in it',
  ]);
  expect((await post("", Buffer.from("no tar"))).status).toBe(400);
  await project("links", { Dockerfile: "FROM scratch\nCOPY link /x\n" });
  await promisify(execFile)("ln", ["-s", "/etc/passwd", join(folder, "links", "link")]);
  const failed = await build("links").catch((error) => error);
  expect(failed.stderr).toContain('"link" names nothing that can be copied');
});

test("a build whose client disconnects ends at once, and leaves nothing", async () => {
  await project("long", { Dockerfile: "FROM host\nRUN echo begun; sleep 1000\n" });
  const child = spawn(sandkeepCommand(), ["image", "build", "--network", "none", join(folder, "long")], {
    env: environment(),
  });
  let said = "";
  child.stderr.on("data", (data) => {
    said += data;
  });
  await eventually("the step has begun", () => said.includes("begun\n"));
  expect(await machines()).toEqual([expect.stringContaining('"network":"deny-all"')]);
  child.kill("SIGINT");
  await eventually("its machine is gone", async () => (await machines()).length === 0);
});

test("a daemon that ends or dies during a build leaves nothing of it", async () => {
  for (const end of ["stop", "kill9"] as const) {
    const child = spawn(sandkeepCommand(), ["image", "build", join(folder, "long")], { env: environment() });
    await eventually("its machine runs", async () => (await machines()).length === 1);
    await daemon()[end]();
    child.kill();
    await daemon().start();
    await eventually("its machine is gone", async () => (await machines()).length === 0);
  }
});

test("skopeo reads an exported image, and an import of it has the same files", async () => {
  const archive = join(folder, "hello.tar");
  await image("export", "hello:1", "-o", archive);
  const { stdout } = await run("skopeo", ["inspect", "--config", `oci-archive:${archive}`]);
  expect(JSON.parse(stdout)).toMatchObject({
    os: "linux",
    config: { Entrypoint: ["/bin/out"], Cmd: ["there"], WorkingDir: "/srv", Labels: { "org.example.made": "here" } },
  });
  const copy = join(folder, "copy.tar");
  await run("skopeo", ["copy", "--quiet", "--insecure-policy", `docker-archive:${archive}`, `oci-archive:${copy}:x`]);
  await run(sandkeepCommand(), ["image", "import", copy, "--name", "again", "--data-dir", daemon().dataDir], {
    env: environment(),
  });
  expect(await listing("again")).toBe(await listing("hello:1"));
  expect(await listing("again")).toContain("bin/out 04755 f 104755 7:8 2");
  expect(await listing("again")).not.toContain("ca-certificates");
  expect((await image("export", "host").catch((error) => error)).stderr).toContain("this host's own /usr");
});

test("an image of a snapshot has its files, and outlives it", async () => {
  const sandbox = await sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), runtime: "node24" });
  await sandbox.writeFiles([{ path: "/tmp/mine", content: Buffer.from("kept") }]);
  const snapshot = await sandbox.snapshot();
  expect((await image("from-snapshot", snapshot.snapshotId, "kept")).stdout).toMatch(/^kept {2}sha256:/);
  await snapshot.delete();
  const next = await sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), image: "kept" });
  expect((await next.readFileToBuffer({ path: "/tmp/mine" }))?.toString()).toBe("kept");
  await next.stop();
});

const run = promisify(execFile);

async function project(name: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(folder, name, path, ".."), { recursive: true });
    await writeFile(join(folder, name, path), text);
  }
}

function environment(): NodeJS.ProcessEnv {
  return {
    ...process.env,
    SANDKEEP_URL: daemon().url,
    SANDKEEP_API_KEY: daemon().key,
    SANDKEEP_RUN_DIR: daemon().runDir,
  };
}

function image(...args: string[]) {
  return run(sandkeepCommand(), ["image", ...args], { env: environment() });
}

function build(name: string, ...args: string[]) {
  return image("build", ...args, join(folder, name));
}

function post(query: string, body: Buffer, key = daemon().key): Promise<Response> {
  const headers = { authorization: `Bearer ${key}` };
  return fetch(`${daemon().url}/sandkeep/v1/builds${query}`, { method: "POST", headers, body: new Uint8Array(body) });
}

async function sentenceOf(response: Response): Promise<string> {
  return ((await response.json()) as { error: { message: string } }).error.message;
}

async function tarOf(files: Record<string, string>): Promise<Buffer> {
  const tar = pack();
  for (const [name, text] of Object.entries(files)) tar.entry({ name }, text);
  tar.finalize();
  return Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
}

/** all machines on the daemon's host, except prepared ones */
async function machines(): Promise<string[]> {
  const folders = await readdir(join(daemon().dataDir, "store", "machines")).catch(() => []);
  const records = await Promise.all(
    folders.map((name) =>
      readFile(join(daemon().dataDir, "store", "machines", name, "machine.json"), "utf8").catch(() => ""),
    ),
  );
  return records.filter((text) => text.includes('"build-'));
}

/** metadata of all files below /bin and /etc of an image, packed by the sandbox itself */
async function listing(name: string): Promise<string> {
  const archive = join(folder, "listing.tar");
  await image("export", name, "-o", archive);
  const layout = join(folder, `layout-${name.replace(":", "-")}`);
  await run("skopeo", ["copy", "--quiet", "--insecure-policy", `oci-archive:${archive}`, `dir:${layout}`]);
  const { layers } = JSON.parse(await readFile(join(layout, "manifest.json"), "utf8"));
  const tree = `${layout}-files`;
  await mkdir(tree, { recursive: true });
  await run("tar", ["-xpf", join(layout, layers[0].digest.slice("sha256:".length)), "--numeric-owner", "-C", tree]);
  const { stdout } = await run("find", [tree, "-printf", "%P %#m %y 10%m %U:%G %n %s %l\n"], { maxBuffer: 1 << 24 });
  return stdout.split("\n").sort().join("\n");
}
