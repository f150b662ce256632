/** The settings of images that come from registries. */

import { z } from "zod";
import { duration, list, minute, type Setting, second } from "./setting-values.ts";

const host = String.raw`[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?`;
const path = "(?:/[a-z0-9][a-z0-9._-]*)*";
const registry = z.string().regex(new RegExp(`^${host}$`), "registries such as registry.example.com or cache:5000");
const place = z
  .string()
  .regex(new RegExp(`^(?:\\*|${host}${path})$`), "registries such as ghcr.io or ghcr.io/team, or *");

/** "docker.io=cache.example.com/hub": where to ask first, by registry */
function mirrors() {
  const wanted = "registries and mirrors such as docker.io=cache.example.com/hub";
  const pattern = new RegExp(`^(${host})=(${host}${path})$`);
  return z
    .string()
    .transform((text, context): Record<string, string> => {
      const pairs = text.split(",").map((part) => pattern.exec(part.trim())?.slice(1));
      if (pairs.every((pair) => pair !== undefined)) return Object.fromEntries(pairs);
      context.addIssue({ code: "custom", message: wanted });
      return z.NEVER;
    })
    .default({});
}

const policies = ["never", "missing", "always"] as const;

// The compiler finds the type of each setting; written down, it would be all of this again.
export function imageSettings(about: ReturnType<typeof z.registry<Setting>>) {
  return {
    registries: list(place).register(about, {
      env: "SANDKEEP_REGISTRIES",
      value: "registry,…",
      meaning: "registries, or parts of them, whose images are pulled when a sandbox is created from one; * for all",
      preset: "none; `sandkeep image pull` pulls from any",
    }),
    pullPolicy: z
      .enum(policies, policies.join(", "))
      .default("missing")
      .register(about, {
        env: "SANDKEEP_PULL_POLICY",
        value: policies.join("|"),
        meaning:
          "when a create pulls an image of these registries: only if it is not here, or to see whether it changed",
      }),
    pullTimeout: duration(second)
      .default(10 * minute)
      .register(about, {
        env: "SANDKEEP_PULL_TIMEOUT",
        value: "duration",
        meaning: "longest that a create waits for its image to be pulled",
        preset: "10m",
      }),
    registryMirrors: mirrors().register(about, {
      env: "SANDKEEP_REGISTRY_MIRRORS",
      value: "list",
      meaning: "where to ask first for images of a registry, such as docker.io=cache.example.com/hub",
      preset: "none",
    }),
    registryHttp: list(registry).register(about, {
      env: "SANDKEEP_REGISTRY_HTTP",
      value: "registry,…",
      meaning: "registries that are spoken to without TLS",
      preset: "none",
    }),
    registryPrivate: list(place).register(about, {
      env: "SANDKEEP_REGISTRY_PRIVATE",
      value: "registry,…",
      meaning: "registries that may redirect to, and take tokens from, addresses that are not public",
      preset: "none",
    }),
  };
}
