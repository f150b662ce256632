/** What a sandbox boots from. */

import { expect, test } from "vitest";
import type { Context } from "./context.ts";
import { resolveBase } from "./images.ts";

const user = "vercel-sandbox";
const cwd = "/vercel/sandbox";

function host(images: string[], defaultImage = "host") {
  const notices: string[] = [];
  const get = async (name: string) => (images.includes(name) ? { name, user, cwd } : undefined);
  // of the runtime only its images are asked for
  const runtime = { images: { get } } as unknown as Context["runtime"];
  return { notices, context: { runtime, defaultImage, notice: (text: string) => void notices.push(text) } };
}

test.each(["host", "debian"])("what names nothing boots from the default image, here %s", async (image) => {
  const { context, notices } = host(["host", "debian"], image);
  for (const wanted of [{}, { runtime: "node24" }]) {
    expect(await resolveBase(context, wanted)).toEqual({ image, runtime: "node24", user, cwd });
  }
  const universal = { image, runtime: "node24", imageName: "universal", user, cwd };
  expect(await resolveBase(context, { image: "universal" })).toEqual(universal);
  expect(notices).toEqual([]);
});

test("a runtime is the image of its name, if there is one", async () => {
  const { context, notices } = host(["host", "node22", "python3.13"]);
  for (const runtime of ["node22", "python3.13"]) {
    expect(await resolveBase(context, { runtime })).toEqual({ image: runtime, runtime, user, cwd });
  }
  expect(notices).toEqual([]);
});

test("a runtime that is not here is said to be the one that runs instead, to the caller and in the log", async () => {
  const { context, notices } = host(["host"]);
  expect(await resolveBase(context, { runtime: "node22" })).toEqual({ image: "host", runtime: "node24", user, cwd });
  expect(notices).toEqual([expect.stringMatching(/^Sandboxes that ask for the runtime "node22" run node24, /)]);
});

test("an image that is not here, a runtime that nobody knows, and both at once are refused", async () => {
  const { context } = host(["host"]);
  const refused = (message: string) => expect.objectContaining({ code: "invalid", message });
  await expect(resolveBase(context, { image: "mine:v1" })).rejects.toEqual(
    refused('Invalid request: image "mine:v1" is not here. Import it with `sandkeep image import`.'),
  );
  await expect(resolveBase(context, { runtime: "cobol" })).rejects.toMatchObject({ code: "invalid" });
  await expect(resolveBase(context, { runtime: "node24", image: "host" })).rejects.toMatchObject({ code: "invalid" });
});
