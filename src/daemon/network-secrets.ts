/** The secrets and certificates of this host that the core hands to sandboxes. */

import { join } from "node:path";
import { conventions } from "../api/default-dialect.ts";
import type { TrustedRoots } from "../config/network-settings.ts";
import type { Context, NetworkSecrets } from "../core/context.ts";
import { certificateOf, deriveAuthority } from "../egress/intercept/authority.ts";
import { withCertificates } from "../runtime/linux/images/java-store.ts";
import { type Place, publicUrlOf } from "./place.ts";
import { secretFor } from "./secrets.ts";
import type { SigningKey } from "./signing-key.ts";

/** nothing if images already trust every root that this host trusts */
export function trustOf({ pems, bundle }: TrustedRoots): Pick<Context, "hostRoots"> {
  if (pems.length === 0) return {};
  return { hostRoots: { pems, bundle, pem: pems.join(""), addToJava: (store) => withCertificates(store, pems) } };
}

/** an authority for each sandbox, and the proof of who it is */
export function networkSecretsOf(place: Place, signingKey: () => SigningKey): NetworkSecrets {
  const secret = secretFor("authorities of sandboxes", join(place.config.dataDir, "secret.key"));
  return {
    authorityOf: ({ sandboxId }) => deriveAuthority(secret, sandboxId),
    identityOf({ id, sandboxName, teamId, projectId }) {
      const { key, keyId } = signingKey();
      const issuer = publicUrlOf(place).replace(/\/$/, "");
      return { teamId, projectId, sandboxId: id, sandboxName, issuer, key, keyId };
    },
    certificateOf,
    certificateFile: conventions.certificateFile,
  };
}
