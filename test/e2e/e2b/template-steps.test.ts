/**
 * The steps of E2B's builder that install packages, through its own SDK, unmodified. The packages are made by the template
 * itself, so that no archive on the internet is needed.
 */

import { Sandbox, Template } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

/** an archive of Debian packages with one package, as the only source of apt */
const aptArchive = [
  "mkdir -p /srv/apt/own/DEBIAN /srv/apt/own/usr/bin && cd /srv/apt",
  "printf 'Package: own-tool\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@example.com>\\nDescription: own\\n' > own/DEBIAN/control",
  "printf '#!/bin/sh\\necho own tool\\n' > own/usr/bin/own-tool && chmod 755 own/usr/bin/own-tool",
  "dpkg-deb --build own own.deb",
  "cp own/DEBIAN/control Packages && echo Filename: ./own.deb >> Packages",
  'echo "Size: $(stat -c %s own.deb)" >> Packages && echo "SHA256: $(sha256sum own.deb | cut -c 1-64)" >> Packages',
  "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*",
  "echo 'deb [trusted=yes] file:/srv/apt ./' > /etc/apt/sources.list",
];

/** a Python package that pip installs without another one */
const wheel = `python3 - <<'END'
import zipfile
with zipfile.ZipFile("/srv/own_wheel-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("own_wheel.py", "answer = 42")
    about = "own_wheel-1.dist-info/"
    wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\\nName: own-wheel\\nVersion: 1\\n")
    wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(about + "RECORD", "")
END`;

const repository = [
  "git init -q -b trunk origin && cd origin && echo cloned > file && git add .",
  "git -c user.name=a -c user.email=a@example.com commit -q -m first",
];

test("packages of apt and pip and clones of git are in the sandboxes of a template", async () => {
  const template = Template()
    .fromBaseImage()
    .runCmd(aptArchive, { user: "root" })
    .runCmd(wheel, { user: "root" })
    .runCmd(repository)
    .aptInstall("own-tool")
    .aptInstall(["own-tool"], { noInstallRecommends: true })
    .pipInstall(["/srv/own_wheel-1-py3-none-any.whl"])
    .pipInstall("/srv/own_wheel-1-py3-none-any.whl", { g: false })
    .gitClone("file:///home/user/origin", "clone", { branch: "trunk", depth: 1 });
  await Template.build(template, "installs");
  const sandbox = await Sandbox.create("installs");
  const use = [
    "own-tool; cat clone/file; stat -c %U clone",
    "python3 -c 'import own_wheel; print(own_wheel.answer, own_wheel.__file__.split(chr(47))[1])'",
    "sudo python3 -c 'import own_wheel; print(own_wheel.answer, own_wheel.__file__.split(chr(47))[1])'",
  ];
  expect((await sandbox.commands.run(use.join("; "))).stdout).toBe("own tool\ncloned\nuser\n42 home\n42 usr\n");
  await sandbox.kill();
});

test("a step that fails names its command and what it printed last, and bases that are not here are named", async () => {
  const build = (template: Parameters<typeof Template.build>[0]) => Template.build(template, "fails");
  await expect(build(Template().fromBaseImage().bunInstall("left-pad"))).rejects.toThrow(
    /RUN bun install left-pad: it ended with exit code 127\. It said last:\s.*bun: command not found/,
  );
  // The user of the step is no part of its command.
  await expect(build(Template().fromBaseImage().runCmd("exit 4", { user: "root" }))).rejects.toThrow(
    /RUN exit 4: it ended with exit code 4/,
  );
  const missing = { "debian:stable": Template().fromDebianImage(), "python:3.12": Template().fromPythonImage("3.12") };
  for (const [name, template] of Object.entries({ ...missing, "node:lts": Template().fromNodeImage() })) {
    await expect(build(template)).rejects.toThrow(`image "${name}" is not here`);
  }
  const aws = { accessKeyId: "a", secretAccessKey: "b", region: "eu-west-1" };
  await expect(build(Template().fromAWSRegistry("1.dkr.ecr.eu-west-1.amazonaws.com/a:b", aws))).rejects.toThrow(
    /credentials are not taken here/,
  );
});
