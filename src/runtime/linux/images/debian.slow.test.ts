/** Builds a real Debian image: needs a package mirror and most of a minute. */

import { expect, test } from "vitest";
import { useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { needs } from "../../../../test/runner/needs.ts";
import { vercelConventions } from "../../../api/vercel/conventions.ts";
import { buildDebian } from "./debian.ts";

const { store } = useLayerTools();

test("a Debian image has what every sandbox has, and nothing of how this host gets its packages", async (context) => {
  needs(context, "root", "the command mmdebstrap");
  const at = await store();
  const stores = { store: at.path, layers: at.layers, images: at.images, conventions: vercelConventions.image };
  const image = await buildDebian(stores, { node: false });
  expect(image).toMatchObject({ name: "debian", user: "vercel-sandbox", cwd: "/vercel/sandbox" });
  const files = await at.layers.filesAt(image.layers.at(-1) ?? "");
  for (const path of ["/usr/bin/git", "/usr/bin/curl", "/usr/bin/python3", "/usr/bin/sudo", "/usr/sbin/useradd"]) {
    expect((await files.stat(path)).type, path).toBe("file");
  }
  await expect(files.stat("/etc/apt/sources.list")).rejects.toThrow("no such file");
  await expect(files.stat("/etc/resolv.conf")).rejects.toThrow("no such file");
  files.close();
}, 600_000);
