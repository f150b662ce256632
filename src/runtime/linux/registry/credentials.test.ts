/** Logins to registries: ours, and those of docker login. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { openSeal } from "../../../daemon/secrets.ts";
import { Credentials } from "./credentials.ts";

test("logins are sealed, listed without their passwords, and found before those of docker login", async () => {
  const folder = await tempDir();
  const dockerFile = join(folder, "config.json");
  const auth = (text: string) => ({ auth: Buffer.from(text).toString("base64") });
  const auths = {
    "https://index.docker.io/v1/": auth("hub:one"),
    "registry.test": auth("docker:two"),
    "helper.test": {},
    "broken.test": auth("nothing"),
    "cloud.test": { ...auth("00000000-0000-0000-0000-000000000000:"), identitytoken: "long-lived" },
    "bare.test": { identitytoken: "other" },
  };
  await writeFile(dockerFile, JSON.stringify({ auths, credsStore: "not/a name" }));
  const warnings: string[] = [];
  const seal = openSeal(join(folder, "secret.key"));
  const warn = (sentence: string) => void warnings.push(sentence);
  const credentials = new Credentials({ dataDir: folder, seal, dockerFile, warn });
  expect(await credentials.find("docker.io")).toEqual({ user: "hub", password: "one" });
  expect(await credentials.find("cloud.test")).toMatchObject({ password: "long-lived", isToken: true });
  expect(await credentials.find("bare.test")).toEqual({ user: "<token>", password: "other", isToken: true });
  expect(await credentials.find("helper.test")).toBeUndefined();
  expect(warnings.splice(0)[0]).toMatch(/that is no name of a program$/);
  await credentials.put("registry.test", { user: "own", password: "s3cret-three" });
  expect(await credentials.find("registry.test")).toEqual({ user: "own", password: "s3cret-three" });
  expect(await credentials.list()).toEqual([
    { registry: "bare.test", user: "<token>", from: "docker" },
    { registry: "cloud.test", user: "00000000-0000-0000-0000-000000000000", from: "docker" },
    { registry: "docker.io", user: "hub", from: "docker" },
    { registry: "registry.test", user: "own", from: "sandkeep" },
  ]);
  expect(await readFile(join(folder, "registries.json"), "utf8")).not.toContain("s3cret");
  await credentials.delete("registry.test");
  expect(await credentials.find("registry.test")).toEqual({ user: "docker", password: "two" });
  for (const registry of ["", "https://x", "a/b", "UPPER", "x y"]) {
    expect(await refusal(credentials.put(registry, { user: "a", password: "b" })), registry).toMatch(/^invalid/);
  }
  for (const login of [
    { user: "", password: "x" },
    { user: "a:b", password: "x" },
    { user: "a", password: "" },
    { user: "a", password: "x\ny" },
  ]) {
    expect(await refusal(credentials.put("registry.test", login))).toMatch(/^invalid: Cannot log in/);
  }
  await writeFile(dockerFile, "{");
  expect(await credentials.find("docker.io")).toBeUndefined();
  expect(warnings[0]).toMatch(/^Cannot use the credentials in /);
});

test("programs that keep logins for Docker are asked, and one that cannot be used causes a warning", async () => {
  const folder = await tempDir();
  const dockerFile = join(folder, "config.json");
  const credHelpers = { "index.docker.io": "hub", "long.test": "long", "token.test": "token", "none.test": "none" };
  await writeFile(dockerFile, JSON.stringify({ credHelpers, credsStore: "all" }));
  const program = async (name: string, script: string) => {
    await writeFile(join(folder, `docker-credential-${name}`), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  };
  const answer = (user: string) => `echo '{"ServerURL":"x","Username":"${user}","Secret":"s3cret"}'`;
  await program(
    "hub",
    `test "$1 $(cat)" = "get https://index.docker.io/v1/" && test -z "$SANDKEEP_KEY" && ${answer("hub")}`,
  );
  await program(
    "all",
    `test "$(cat)" = other.test && ${answer("all")} || { echo credentials not found in it; exit 1; }`,
  );
  await program("token", answer("<token>"));
  await program("long", "exec head -c 100000 /dev/zero");
  const path = process.env.PATH;
  process.env.PATH = `${folder}:${path}`;
  process.env.SANDKEEP_KEY = "leaked";
  onTestFinished(() => {
    process.env.PATH = path;
    delete process.env.SANDKEEP_KEY;
  });
  const warnings: string[] = [];
  const warn = (sentence: string) => void warnings.push(sentence);
  const seal = openSeal(join(folder, "secret.key"));
  const credentials = new Credentials({ dataDir: folder, seal, dockerFile, warn });
  expect(await credentials.find("docker.io")).toEqual({ user: "hub", password: "s3cret" });
  expect(await credentials.find("other.test")).toEqual({ user: "all", password: "s3cret" });
  expect(await credentials.find("unknown.test")).toBeUndefined();
  expect(warnings).toEqual([]);
  expect(await credentials.find("token.test")).toEqual({ user: "<token>", password: "s3cret", isToken: true });
  for (const registry of ["long.test", "none.test"]) {
    expect(await credentials.find(registry)).toBeUndefined();
  }
  expect(warnings).toEqual([
    'Cannot use the program "docker-credential-long" for "long.test": its answer is too long',
    expect.stringMatching(/^Cannot use the program "docker-credential-none" for "none.test": .*ENOENT/),
  ]);
});
