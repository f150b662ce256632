/** Logins to registries: ours, and those of docker login. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/file-guest.ts";
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
  };
  await writeFile(dockerFile, JSON.stringify({ auths, credsStore: "desktop" }));
  const warnings: string[] = [];
  const seal = openSeal(join(folder, "secret.key"));
  const warn = (sentence: string) => void warnings.push(sentence);
  const credentials = new Credentials({ dataDir: folder, seal, dockerFile, warn });
  expect(await credentials.find("docker.io")).toEqual({ user: "hub", password: "one" });
  expect(await credentials.find("helper.test")).toBeUndefined();
  await credentials.put("registry.test", { user: "own", password: "s3cret-three" });
  expect(await credentials.find("registry.test")).toEqual({ user: "own", password: "s3cret-three" });
  expect(await credentials.list()).toEqual([
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
