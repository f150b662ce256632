/** Names that an operator gives to images, by the setting and by the command line, as frameworks ask for them. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { raw } from "../clients.ts";

const daemon = daemonOfFile({
  SANDKEEP_IMAGE_ALIASES: "ghcr.io/acme/base:*=host, */tools/*:1=host,gone/*=missing",
});

test("the setting names images, with wildcards, and the target of an alias must exist", async () => {
  expect(await imageOf("ghcr.io/acme/base:7")).toMatch(/^host@sha256:/);
  expect(await imageOf("ghcr.io/acme/base")).toMatch(/^host@sha256:/);
  expect(await imageOf("registry.example/team/tools/python:1")).toMatch(/^host@sha256:/);
  expect(await imageOf("registry.example/team/tools/python:2")).toMatch(/^400 /);
  expect(await imageOf("ghcr.io/acme/other:7")).toMatch(/^400 .*ghcr\.io\/acme\/other:7/);
  expect(await imageOf("gone/x")).toBe(
    '400 Invalid request: image "gone/x" cannot be used: "gone/*" is an alias of the image "missing", which is not here.',
  );
});

test("the command line names images while the daemon runs, and wins over a managed name", async () => {
  const eve = "vcr.vercel.com/vercel/eve/base:0.80.1";
  expect(await imageOf(eve)).toMatch(/^vercel\/sandbox\/universal@sha256:/);
  expect(await image("alias", "vcr.vercel.com/vercel/eve/base:*", "host")).toBe(
    "vcr.vercel.com/vercel/eve/base:* is host\n",
  );
  expect(await imageOf(eve)).toMatch(/^host@sha256:/);
  expect(await imageOf("vcr.vercel.com/vercel/eve/other:1")).toMatch(/^vercel\/sandbox\/universal@sha256:/);
  expect(await image("aliases")).toBe("vcr.vercel.com/vercel/eve/base:* is host\n");
  await image("unalias", "vcr.vercel.com/vercel/eve/base:*");
  expect(await imageOf(eve)).toMatch(/^vercel\/sandbox\/universal@sha256:/);
});

/** the image of a sandbox that asks for this one, or the status and sentence of the refusal */
async function imageOf(name: string): Promise<string> {
  const { status, json } = await raw(daemon(), "POST", "/v3/sandboxes", { body: { image: name, persistent: false } });
  if (status !== 200) return `${status} ${json.error.message}`;
  await raw(daemon(), "DELETE", `/v2/sandboxes/${json.sandbox.name}`);
  return json.sandbox.image;
}

async function image(...args: string[]): Promise<string> {
  const where = ["--data-dir", daemon().dataDir];
  return (await promisify(execFile)(sandkeepCommand(), ["image", ...args, ...where])).stdout;
}
