/** What a sandbox sees of the host's userland, checked through real overlay mounts. */

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { needs } from "../../../../test/runner/needs.ts";
import { vercelConventions } from "../../../api/vercel/conventions.ts";
import { ensureHostImage } from "./host.ts";
import { ownNode } from "./node-runtime.ts";

const { store } = useLayerTools();
const run = promisify(execFile);
const conventions = vercelConventions.image;

/** a stand-in for the package's Node, so that no test copies 120 MB */
function smallNode() {
  return { ...ownNode(), program: "/usr/bin/true", packages: [] };
}

/** runs a script in a shell inside, on a fresh writable layer */
type Shell = (script: string) => Promise<string>;

/** mounts layers with a writable one on top, in a mount namespace of its own, and runs scripts in there */
async function shellOn(at: TestStore, layers: string[]): Promise<Shell> {
  const lower = (await at.layers.lowerDirs(layers)).join(":");
  const place = join(at.path, "mount");
  await mkdir(join(place, "merged"), { recursive: true });
  let count = 0;
  return async (script) => {
    const own = join(place, String(count++));
    await mkdir(join(own, "upper"), { recursive: true });
    await mkdir(join(own, "work"));
    const options = `lowerdir=${lower},upperdir=${own}/upper,workdir=${own}/work,redirect_dir=on,index=off,metacopy=off`;
    const mount = `mount -t overlay overlay -o "${options}" "${place}/merged"`;
    const devices = `mount --bind /dev "${place}/merged/dev" && mount -t proc proc "${place}/merged/proc"`;
    const enter = `exec chroot "${place}/merged" /usr/bin/env -i PATH=/usr/bin:/bin /bin/sh -ec "$0"`;
    const args = ["-m", "--propagation", "private", "sh", "-ec", `${mount} && ${devices} && ${enter}`, script];
    const { stdout } = await run("unshare", args, { maxBuffer: 64 << 20 });
    return stdout.trim();
  };
}

describe("on this host", () => {
  test("programs of the host run, with their own /etc, homes and users", async (context) => {
    needs(context, "root", "the file system overlay");
    const at = await store();
    const image = await ensureHostImage(at.layers, at.images, { conventions, node: smallNode() });
    const shell = await shellOn(at, image.layers);
    expect(await shell("id vercel-sandbox")).toMatch(/^uid=1000\(vercel-sandbox\) gid=1000\(vercel-sandbox\)/);
    expect(await shell("id -u ubuntu user root")).toBe("1000\n1000\n0");
    expect(await shell("git --version; python3 --version; curl --version | head -1; find --version | head -1")).toMatch(
      /git version .*Python 3.*curl .*find/s,
    );
    const top = (await shell("ls /")).split("\n").filter((name) => !/^lib(32|64|x32)$/.test(name));
    expect(top.join(" ")).toBe(
      "bin boot dev etc home lib media mnt opt proc root run sbin srv sys tmp usr var vercel workspace",
    );
    expect(await shell("stat -c '%a %u' /tmp /var/tmp /root /vercel/sandbox /workspace /home/vercel-sandbox")).toBe(
      "1777 0\n1777 0\n700 0\n755 1000\n755 1000\n755 1000",
    );
    expect(await shell("cat /etc/hostname /etc/resolv.conf; ls /vercel/runtimes/node24/bin")).toBe(
      "sandbox\nnameserver 198.18.0.1\nnode",
    );
    expect(await shell("readlink -f /usr/local/bin/node")).toBe("/vercel/runtimes/node24/bin/node");
    expect(await shell("stat -c %a /etc/sudoers /etc/shadow")).toBe("440\n640");
    expect(await shell("sudo -n -u vercel-sandbox sudo -n id -u")).toBe("0");
    expect(image).toMatchObject({ user: "vercel-sandbox", cwd: "/vercel/sandbox", env: { LANG: "C.UTF-8" } });
  });

  test("dpkg knows the installed packages, and installs more", async (context) => {
    needs(context, "root", "the file system overlay", "the command dpkg");
    const at = await store();
    const image = await ensureHostImage(at.layers, at.images, { conventions, node: smallNode() });
    const shell = await shellOn(at, image.layers);
    expect(await shell("dpkg -s coreutils | grep Status; dpkg -L coreutils | grep -x /bin/ls; dpkg --audit")).toBe(
      "Status: install ok installed\n/bin/ls",
    );
    expect(await shell("ls /var/lib")).toBe("apt\ndpkg");
    const install = `
      mkdir -p /tmp/x/DEBIAN /tmp/x/usr/bin
      printf 'Package: tiny\\nVersion: 1\\nArchitecture: all\\nMaintainer: x\\nDescription: x\\n' > /tmp/x/DEBIAN/control
      echo hello > /tmp/x/usr/bin/tiny
      dpkg-deb --build /tmp/x /tmp/x.deb >/dev/null
      PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg -i /tmp/x.deb >/dev/null
      dpkg -L tiny | grep -x /usr/bin/tiny
      PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg -r tiny >/dev/null
      ! test -e /usr/bin/tiny`;
    expect(await shell(install)).toBe("/usr/bin/tiny");
  });

  test("writing, moving and removing files inside does not change the host", async (context) => {
    needs(context, "root", "the file system overlay");
    const at = await store();
    const image = await ensureHostImage(at.layers, at.images, { conventions, node: smallNode() });
    const shell = await shellOn(at, image.layers);
    const before = await Promise.all(["/usr", "/usr/share", "/usr/share/doc", "/usr/bin"].map((path) => readdir(path)));
    const script = `
      rm -rf /usr/share/doc
      mv /usr/share/perl5 /moved && ls /moved >/dev/null
      mv /usr/include /usr/inc
      cp /bin/true /usr/bin/new && /usr/bin/new
      mv /usr/bin/git /usr/bin/tig && /usr/bin/tig --version
      ! test -e /usr/share/doc && ! test -e /usr/share/perl5`;
    expect(await shell(script)).toMatch(/git version/);
    expect(
      await Promise.all(["/usr", "/usr/share", "/usr/share/doc", "/usr/bin"].map((path) => readdir(path))),
    ).toEqual(before);
  });
});

describe("on a made-up host", () => {
  /** a host with secrets in all usual places */
  async function makeHost(at: TestStore): Promise<string> {
    const root = join(at.path, "host");
    const files = {
      "etc/shadow": "root:SECRET",
      "etc/passwd": "admin:SECRET",
      "etc/app/token": "SECRET",
      "etc/changed.conf": "SECRET in what once was a package's file",
      "etc/pristine.conf": "as packaged\n",
      "etc/ssl/private/key.pem": "SECRET",
      "etc/ssl/certs/mixed.pem": "-----BEGIN CERTIFICATE----- -----BEGIN PRIVATE KEY----- SECRET",
      "etc/ssl/certs/notes": "SECRET",
      "etc/ssl/certs/good.pem": "-----BEGIN CERTIFICATE-----",
      "etc/apt/sources.list": "deb http://user:SECRET@private/ x main",
      "root/.ssh/id": "SECRET",
      "home/me/notes": "SECRET",
      "var/lib/app/db": "SECRET",
      "opt/app/key": "SECRET",
      "srv/SECRET": "SECRET",
      "usr/local/etc/SECRET": "SECRET",
      "usr/src/SECRET": "SECRET",
      "usr/etc/SECRET": "SECRET",
      "usr/bin/tool": "tool",
      "usr/sbin/daemon": "daemon",
      "usr/lib/os-release": 'ID=debian\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Made up"\n',
      "usr/share/doc/readme": "doc",
      "var/lib/dpkg/status": `Package: x\nConffiles:\n /etc/pristine.conf c9440c9b9fe69064cb0776ee98a69a85\n /etc/changed.conf c9440c9b9fe69064cb0776ee98a69a85\n /etc/../root/.ssh/id 0123\nVersion: 1\n`,
      "var/lib/dpkg/info/x.list": "/.",
    };
    for (const [path, text] of Object.entries(files)) {
      await mkdir(join(root, path, ".."), { recursive: true });
      await writeFile(join(root, path), text);
    }
    for (const name of ["bin", "sbin", "lib"]) await symlink(`usr/${name}`, join(root, name));
    await symlink("/root/.ssh/id", join(root, "etc/services"));
    return root;
  }

  async function dump(at: TestStore, layers: string[]): Promise<string> {
    const lower = (await at.layers.lowerDirs(layers)).join(":");
    const place = join(at.path, "mount");
    await mkdir(place, { recursive: true });
    const mount = `mount -t overlay overlay -o "ro,lowerdir=${lower},redirect_dir=on,metacopy=off" "${place}"`;
    const show = `cd "${place}" && find . | sort && grep -ra SECRET . || true`;
    const { stdout } = await run("unshare", ["-m", "--propagation", "private", "sh", "-ec", `${mount}; ${show}`]);
    return stdout;
  }

  test("no secret of the host is visible, nor one that is added later", async (context) => {
    needs(context, "root", "the file system overlay");
    const at = await store();
    const host = await makeHost(at);
    const image = await ensureHostImage(at.layers, at.images, { conventions, root: host, node: smallNode() });
    const shows = await dump(at, image.layers);
    expect(shows).not.toMatch(/SECRET/);
    expect(shows).toMatch(/^\.\/usr\/bin\/tool$/m);
    expect(shows).toMatch(/^\.\/etc\/pristine\.conf$/m);
    expect(shows).toMatch(/^\.\/etc\/ssl\/certs\/good\.pem$/m);
    expect(shows).not.toMatch(/changed\.conf|mixed\.pem|\.\/etc\/services/);
    const dpkgAtWork = "var/lib/dpkg/tmp.ci";
    for (const later of ["etc/new", "home/new", "var/lib/new", "usr/local/new", "opt/new", "new", dpkgAtWork]) {
      await mkdir(join(host, later), { recursive: true });
      await writeFile(join(host, later, "file"), "SECRET");
    }
    expect(await dump(at, image.layers)).toBe(shows);
  });

  test("the image is made again when the host changes, and only then", async (context) => {
    needs(context, "root");
    const at = await store();
    const host = await makeHost(at);
    const options = { conventions, root: host, node: smallNode() };
    const first = await ensureHostImage(at.layers, at.images, options);
    expect(await ensureHostImage(at.layers, at.images, options)).toEqual(first);
    await mkdir(join(host, "usr/extra"));
    const second = await ensureHostImage(at.layers, at.images, options);
    expect(second.version).not.toBe(first.version);
    expect(await at.snapshots.collect()).toEqual([first.layers[1]]);
    const [, own = ""] = second.layers;
    await rm(join(at.path, "layers", own), { recursive: true });
    expect((await ensureHostImage(at.layers, at.images, options)).layers).toEqual(second.layers);
    expect(await at.layers.lowerDirs(second.layers)).toHaveLength(4);
  });

  test("a host whose /bin is not a link to /usr is refused with a clear error", async () => {
    const at = await store();
    const host = await makeHost(at);
    await rm(join(host, "bin"));
    await mkdir(join(host, "bin"));
    expect(
      await refusal(ensureHostImage(at.layers, at.images, { conventions, root: host, node: smallNode() })),
    ).toMatch(/^unsupported: Cannot make the image "host": \/bin of this host is not a link/);
    expect(await readFile(join(host, "usr/bin/tool"), "utf8")).toBe("tool");
  });
});
