/** What sandboxes of the default image have of the host's own /etc: one layer for all of them, which none can change. */

import { execFileSync } from "node:child_process";
import { lstatSync, readdirSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bootFor } from "../conformance/runtime/host.ts";
import { sh } from "../conformance/runtime/run.ts";
import { linuxHost } from "../harness/linux-host.ts";
import { demand } from "../runner/needs.ts";

const host = linuxHost();

/** the links of a folder of the host, as "name -> target" */
function linksIn(folder: string): string[] {
  const links = readdirSync(folder).filter((name) => lstatSync(`${folder}/${name}`).isSymbolicLink());
  return links.map((name) => `${name} -> ${readlinkSync(`${folder}/${name}`)}`).sort();
}

/** a script that prints the same */
const listLinks = (folder: string) => `cd ${folder} && find . -type l -printf '%f -> %l\\n' | LC_ALL=C sort`;

test("they have its alternatives and certificates, owned by root, and nothing else of the layer shows", async () => {
  demand("root");
  const machine = await bootFor(host());
  const inside = (await sh(machine, listLinks("/etc/alternatives"))).stdout.trim().split("\n");
  expect(inside.sort()).toEqual(linksIn("/etc/alternatives"));
  const facts = `ls -d /sandkeep* /usr/sandkeep* 2>/dev/null; stat -c '%a %u %n' /etc /etc/ssl /etc/ssl/certs
    stat -c '%a %u' /etc/ld.so.cache; curl -sS --cacert /etc/ssl/certs/ca-certificates.crt file:///etc/hostname`;
  const { stdout, stderr } = await sh(machine, facts);
  expect(stderr).toBe("");
  expect(stdout).toBe("755 0 /etc\n755 0 /etc/ssl\n755 0 /etc/ssl/certs\n644 0\nsandbox\n");
  const { layers } = host().runtime;
  if (!layers.canShare) return;
  const shared = (await layers.list()).find(({ id }) => id.startsWith("host-etc-"));
  expect(linksIn(join(shared?.path ?? "", "sandkeep-etc/alternatives"))).toEqual(linksIn("/etc/alternatives"));
});

test("a change is the sandbox's own, and stays over a stop, a fork and a restore", async () => {
  demand("root");
  const before = execFileSync("ls", ["-lR", "/etc/alternatives", "/etc/ssl"], { encoding: "utf8" });
  const machine = await bootFor(host());
  const { status, stderr } = await sh(
    machine,
    `cd /etc && echo '# mine' >> ca-certificates.conf && rm -r alternatives && mv ssl tls && ln -s tls ssl &&
      mkdir alternatives && ln -s /bin/true alternatives/mine && tail -1 ca-certificates.conf`,
  );
  expect(status.code, stderr).toBe(0);
  const { snapshot } = await machine.stop({ snapshot: true });
  const script =
    "cd /etc && ls alternatives && readlink ssl && test -e tls/openssl.cnf && tail -1 ca-certificates.conf";
  for (let i = 0; i < 2; i++) {
    const next = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
    const { stdout } = await sh(next, script);
    expect(stdout).toBe("mine\ntls\n# mine\n");
  }
  const fresh = await bootFor(host());
  expect((await sh(fresh, "ls /etc/alternatives | wc -l; test -L /etc/ssl || echo folder")).stdout).toMatch(
    /^[1-9]\d+\nfolder\n$/,
  );
  expect(execFileSync("ls", ["-lR", "/etc/alternatives", "/etc/ssl"], { encoding: "utf8" })).toBe(before);
});
