/** What programs written for Vercel's sandboxes expect to find inside one, and in requests that a rule forwards. */

import type { Conventions } from "../../core/model/conventions.ts";

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
};
