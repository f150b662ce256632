/** Images from registries, their further names, and the deletion of what no image needs. */

import { z } from "zod";
import type { PullLine } from "../../../core/images/pulls.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { ndjson } from "../../kit/live.ts";
import { errorLine } from "../errors.ts";
import { answers, answersNothing, operation } from "../frame/operation.ts";
import { printSizedImage, sizedImage } from "../resources/image.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Images";
const imageName = z.string().min(1).max(160);

const line = z.discriminatedUnion("type", [
  z
    .object({ type: z.literal("asking"), reference: z.string() })
    .meta({ description: "The pull waits for its turn, or for the registry" }),
  z
    .object({ type: z.literal("pulling"), received: z.number(), total: z.number() })
    .meta({ description: "Bytes so far, and of all layers that were missing; at each hundredth of them at most" }),
  z.object({
    type: z.literal("pulled"),
    image: sizedImage,
    isNew: z.boolean().meta({ description: "Whether the name stood for another image, or none, before" }),
  }),
]);

const alias = z
  .object({
    pattern: z.string().meta({ description: "The further name; a `*` in it stands for any text" }),
    image: z.string().meta({ description: "Name of an image of the host" }),
    isSetting: z.boolean().meta({ description: "Whether SANDKEEP_IMAGE_ALIASES has it, which alone changes it" }),
  })
  .meta({ id: "ImageAlias" });

const pattern = z.string().min(1).max(255).meta({ description: "The further name; a `*` in it stands for any text" });

export function imagePullOperations({ core, limits, logError, ending }: Dialect) {
  return [
    operation({
      id: "pullImage",
      method: "POST",
      path: "/images/pull",
      tag,
      summary: "Pulls an image from a registry",
      description:
        "A key of a team pulls from the registries that the operator lists, and an admin key from any. The pull ends " +
        "when you disconnect, unless others wait for the same image. A repeat with the same `Idempotency-Key` goes on with what is still " +
        "missing.",
      about: "project",
      body: z.strictObject({
        reference: z.string().min(1).max(512).meta({
          description: "Such as alpine:3.20 or registry.example.com/app@sha256:…; without a registry, docker.io",
        }),
        name: imageName.optional().meta({ description: "Its name here; by default the reference in short" }),
        noNode: z.boolean().default(false).meta({ description: "Whether Sandkeep's own Node is left out" }),
        owner: z
          .enum(["host", "team"])
          .optional()
          .meta({
            description:
              "Whose image it becomes. By default the host's; the team's for a key that is not an admin key and gives a " +
              "`name` or `noNode`, which only an admin key may give for the host's",
          }),
      }),
      answer: {
        status: 200,
        description: "What the pull does, as lines of JSON",
        others: { "application/x-ndjson": line },
      },
      callsOnce: true,
      async run({ owner, body, once }) {
        const left = new AbortController();
        const pull = () => core.pulls.pull(owner, { ...body, signal: left.signal });
        let lines: AsyncGenerator<PullLine> | undefined;
        await once(async () => {
          lines = await pull();
          return null;
        });
        const all = lines ?? (await pull());
        return ndjson(
          async function* (gone) {
            gone.addEventListener("abort", () => left.abort(clientHasGone()), { once: true });
            for await (const each of all) yield printed(each);
          },
          { failure: (error) => errorLine(error, logError), patience: limits.patience, ending },
        );
      },
    }),
    operation({
      id: "pruneImages",
      method: "POST",
      path: "/images/prune",
      tag,
      summary: "Deletes what no image, sandbox or snapshot needs; needs an admin key",
      description: "These are layers of deleted images, and downloads that were cut off. No image is deleted.",
      about: "host",
      answer: answers("What was deleted", z.object({ layers: z.int().meta({ description: "How many layers" }) })),
      run: async ({ caller }) => ({ layers: await core.host.pruneImages(caller) }),
    }),
    operation({
      id: "listImageAliases",
      method: "GET",
      path: "/images/aliases",
      tag,
      summary: "Lists the further names of the host's images",
      about: "host",
      answer: answers("The aliases, by their patterns", z.object({ aliases: z.array(alias) })),
      run: async ({ caller }) => ({ aliases: await core.imageAliases.list(caller) }),
    }),
    operation({
      id: "putImageAlias",
      method: "PUT",
      path: "/images/aliases",
      tag,
      summary: "Gives an image of the host a further name, or changes what that name means; needs an admin key",
      about: "host",
      body: z.strictObject({ pattern, image: imageName.meta({ description: "Name of an image of the host" }) }),
      answer: answers("The alias", alias),
      run: async ({ caller, body }) => core.imageAliases.set(caller, body.pattern, body.image),
    }),
    operation({
      id: "deleteImageAlias",
      method: "DELETE",
      path: "/images/aliases",
      tag,
      summary: "Deletes a further name of an image; needs an admin key",
      about: "host",
      query: { pattern },
      answer: answersNothing("It is gone"),
      async run({ caller, query }) {
        await core.imageAliases.delete(caller, query.pattern);
        return undefined;
      },
    }),
  ];
}

function clientHasGone(): SandkeepError {
  return new SandkeepError("gone", "Cannot pull the image: the client has gone");
}

function printed(each: PullLine): z.input<typeof line> {
  if (each.type !== "pulled") return each;
  const { type, isNew, image, sizes } = each;
  return { type, image: printSizedImage({ image, sizes }), isNew };
}
