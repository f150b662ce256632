/** What programs written for Vercel's sandboxes expect inside a sandbox and in forwarded requests. */

import type { Conventions } from "../../core/model/conventions.ts";

/** Clients that work with a daemon unchanged, and the name of their service for `sandkeep env`. */
export const clients = { service: "vercel", names: "@vercel/sandbox or the sandbox CLI" };

export const vercelConventions: Conventions = {
  image: {
    users: [
      { name: "vercel-sandbox", home: "/home/vercel-sandbox" },
      { name: "ubuntu", home: "/vercel" },
    ],
    cwd: "/vercel/sandbox",
    folder: "/vercel",
  },
  certificateFile: "vercel-proxy-ca.pem",
  forwardHeaders: {
    host: "vercel-forwarded-host",
    scheme: "vercel-forwarded-scheme",
    port: "vercel-forwarded-port",
    path: "vercel-forwarded-path",
    token: "vercel-sandbox-oidc-token",
  },
  regions: [
    "iad1",
    ...["sfo1", "cle1", "cdg1", "fra1", "arn1", "sin1", "pdx1", "lhr1", "icn1", "bom1", "cpt1"],
    ...["dub1", "gru1", "hkg1", "syd1", "yul1", "hnd1", "kix1"],
  ],
};
