/** Tests of which image a sandbox boots from. */

import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import { resolveBase, type WantedImage, wantedImage } from "./images.ts";

const user = "plain";
const cwd = "/work";
const owner = { teamId: "team_a" };
const digest = (name: string) => Buffer.from(name.padEnd(32)).toString("hex");

function host(images: string[], options: { defaultImage?: string; aliases?: Record<string, string> } = {}) {
  const notices: string[] = [];
  const made = images.map((name) => ({ name, user, cwd, digest: digest(name) }));
  const get = async (wanted: string) => made.find(({ name }) => name === wanted);
  const runtime = { images: { get, list: async () => made, aliases: async () => options.aliases ?? {} } };
  return {
    notices,
    context: {
      // only its images are used
      runtime: runtime as unknown as Context["runtime"],
      defaultImage: options.defaultImage ?? "host",
      notice: (text: string) => void notices.push(text),
    },
  };
}

const base = (image: string) => ({ image, runtime: "node24", digest: digest(image), user, cwd });

test.each(["host", "debian"])("a request without names boots from the default image, here %s", async (defaultImage) => {
  const { context, notices } = host(["host", "debian"], { defaultImage });
  for (const wanted of [{}, { runtime: "node24" }]) {
    expect(await resolveBase(context, owner, wanted)).toEqual(base(defaultImage));
  }
  expect(notices).toEqual([]);
});

test("a runtime boots the image of its name, if there is one", async () => {
  const { context, notices } = host(["host", "node22", "python3.13"]);
  for (const runtime of ["node22", "python3.13"]) {
    expect(await resolveBase(context, owner, { runtime })).toEqual({ ...base(runtime), runtime });
  }
  expect(notices).toEqual([]);
});

test("for a missing runtime, the base and the log name the runtime that runs instead", async () => {
  const { context, notices } = host(["host"]);
  expect(await resolveBase(context, owner, { runtime: "node22" })).toEqual(base("host"));
  expect(notices).toEqual([expect.stringMatching(/^Sandboxes that ask for the runtime "node22" run node24, /)]);
});

test.each([
  ["app:latest", "app"],
  ["app", "app:latest"],
  ["docker.io/library/app:latest", "app"],
  ["registry.test:5000/app:latest", "registry.test:5000/app"],
  ["registry.test:5000/app", "registry.test:5000/app:latest"],
])("%s means the image %s, if none has just this name", async (asked, name) => {
  const { context } = host(["host", name]);
  expect(await resolveBase(context, owner, { image: asked })).toEqual({ ...base(name), imageName: name });
  const both = host(["host", name, asked]);
  expect(await resolveBase(both.context, owner, { image: asked })).toEqual({ ...base(asked), imageName: asked });
});

test("an image is the first with one of its names; the dialect may allow the default image instead", async () => {
  const asked = (changes: Partial<WantedImage>) => ({ image: { name: "r/a:1", candidates: ["a:1", "a"], ...changes } });
  const { context, notices } = host(["host", "a"]);
  expect(await resolveBase(context, owner, asked({}))).toEqual({ ...base("a"), imageName: "a" });
  expect(await resolveBase(context, owner, asked({ candidates: ["b"], otherwise: "the-default" }))).toEqual(
    base("host"),
  );
  expect(notices).toEqual([]);
  expect(await resolveBase(context, owner, asked({ candidates: ["b"], otherwise: "default-and-say-so" }))).toEqual(
    base("host"),
  );
  expect(notices).toEqual([
    'Sandboxes that ask for the image "r/a:1" run the image "host": no image is named "b" (sandkeep image import <path> --name b brings one)',
  ]);
});

test("an image is found by the digest that answers show", async () => {
  const { context } = host(["host", "a:v1"]);
  const image = { name: "a@sha256:x", candidates: ["a"], digest: digest("a:v1") };
  expect(await resolveBase(context, owner, { image })).toEqual({ ...base("a:v1"), imageName: "a:v1" });
});

test("an image is found by each digest of its registry, and then no notice says that it has another one", async () => {
  const { context, notices } = host(["host", "a"]);
  const [manifest, index] = ["1".repeat(64), "2".repeat(64)];
  const pulled = { name: "r/b", user, cwd, digest: digest("b"), source: { reference: "r/b:1", manifest, index } };
  const images = { get: async () => undefined, list: async () => [pulled] };
  const runtime = { images } as unknown as Context["runtime"];
  for (const each of [manifest, index, digest("b")]) {
    const asked = { name: `r/b@sha256:${each}`, candidates: ["r/b"], digest: each };
    for (const image of [asked.name, asked]) {
      expect(await resolveBase({ ...context, runtime }, owner, { image })).toMatchObject({ imageName: "r/b" });
    }
  }
  expect(notices).toEqual([]);
  const other = `r/b@sha256:${"3".repeat(64)}`;
  await expect(resolveBase({ ...context, runtime }, owner, { image: other })).rejects.toThrow(
    `image "${other}" is not here. Pull it with \`sandkeep image pull ${other}\``,
  );
});

test.each([
  ["vendor/*", "tools"],
  ["vendor/base:1", "exact"],
  ["*:1", "tools"],
  ["vendor/*se:*", "tools"],
])("of several aliases, here %s, the most specific one counts", async (pattern, target) => {
  const { context } = host(["host", "tools", "exact"], { aliases: { "*": "host", [pattern]: target } });
  expect(await resolveBase(context, owner, { image: "vendor/base:1" })).toMatchObject({ image: target });
  expect(await resolveBase(context, owner, { image: "other" })).toMatchObject({ image: "host" });
});

test("an exact alias goes before an image, which goes before an alias with a star", async () => {
  const { context } = host(["host", "a", "b"], { aliases: { "*": "host", a: "host" } });
  expect(await resolveBase(context, owner, { image: "a" })).toMatchObject({ image: "host" });
  expect(await resolveBase(context, owner, { image: "b" })).toMatchObject({ image: "b" });
});

test("a digest that does not match is reported", async () => {
  const { context, notices } = host(["host", "a"]);
  const image = (name: string, wanted: Partial<WantedImage>) => ({
    image: { name: `${name}@sha256:1`, candidates: [name], digest: "1", ...wanted },
  });
  expect(await resolveBase(context, owner, image("a", {}))).toMatchObject({ image: "a" });
  expect(await resolveBase(context, owner, image("universal", { otherwise: "the-default" }))).toMatchObject({
    image: "host",
  });
  expect(notices).toEqual(
    ["a", "host"].map((name) =>
      expect.stringMatching(`by its digest run the image "${name}", which has sha256:${digest(name)}$`),
    ),
  );
});

test("an alias of a missing image is a clear error", async () => {
  const { context } = host(["host"], { aliases: { "a*": "gone" } });
  await expect(resolveBase(context, owner, { image: "ab" })).rejects.toThrow(
    'Invalid request: image "ab" cannot be used: "a*" is an alias of the image "gone", which is not here.',
  );
});

test("a dialect's home replaces that of the default image only", async () => {
  const { context } = host(["host", "mine"]);
  const home = { user: "other", cwd: "/other", instead: { user, cwd } };
  expect(await resolveBase(context, owner, { home })).toEqual({ ...base("host"), user: "other", cwd: "/other" });
  expect(await resolveBase(context, owner, { home, image: "mine" })).toMatchObject({ user, cwd });
  const elsewhere = { ...home, instead: { user: "somebody", cwd } };
  expect(await resolveBase(context, owner, { home: elsewhere })).toMatchObject({ user, cwd });
});

test("a missing image, an unknown runtime, and both at once are refused", async () => {
  const { context } = host(["host"]);
  const refused = (message: string) => expect.objectContaining({ code: "invalid", message });
  await expect(resolveBase(context, owner, { image: "mine:v1" })).rejects.toEqual(
    refused(
      'Invalid request: image "mine:v1" is not here. Pull it with `sandkeep image pull mine:v1`, or import it with `sandkeep image import`.',
    ),
  );
  await expect(resolveBase(context, owner, { image: "$(x)" })).rejects.toEqual(
    refused('Invalid request: image "$(x)" is not here. Import it with `sandkeep image import`.'),
  );
  await expect(resolveBase(context, owner, { runtime: "cobol" })).rejects.toMatchObject({ code: "invalid" });
  await expect(resolveBase(context, owner, { runtime: "node24", image: "host" })).rejects.toMatchObject({
    code: "invalid",
  });
});

test("images that are here come before the registry's, and only one from that very place is asked for again", async () => {
  const { context } = host(["host"]);
  const reference = "docker.io/acme/base:latest";
  const names = {
    imported: {},
    elsewhere: { source: { reference: "r/other:1", manifest: "m" } },
    teams: { owner: "team_a", source: { reference, manifest: "m" } },
    pulled: { source: { reference, manifest: "m" } },
  };
  const pulled: string[] = [];
  const images = {
    list: async () => [],
    get: async (name: string) => name in names && { name, user, cwd, ...names[name as keyof typeof names] },
    pull: async (name: string, _: string, { onlyIf }: { onlyIf?: string } = {}) => {
      if (onlyIf !== undefined && onlyIf !== reference) return undefined;
      pulled.push(name);
      return { name, user, cwd, digest: digest("fresh") };
    },
  };
  const runtime = { images } as unknown as Context["runtime"];
  const boot = (image: string, pullPolicy: "always" | "missing") =>
    resolveBase({ ...context, runtime, pullPolicy }, owner, { image });
  for (const image of Object.keys(names)) {
    expect((await boot(image, "missing")).digest).toBeUndefined();
    expect((await boot(image, "always")).digest, image).toBe(image === "pulled" ? digest("fresh") : undefined);
  }
  expect(pulled).toEqual(["pulled"]);
  for (const policy of ["missing", "always"] as const) {
    expect((await boot("absent", policy)).digest).toBe(digest("fresh"));
    const image = { ...wantedImage("absent"), isLocal: true };
    await expect(resolveBase({ ...context, runtime, pullPolicy: policy }, owner, { image })).rejects.toThrow(
      "not here",
    );
  }
});
