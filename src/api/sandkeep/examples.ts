/** How programs use a sandbox over our own API, as the dashboard shows it. */

import type { Example, ExamplePlace } from "../kit/dialect.ts";

export function ownExamples({ url, sandbox }: ExamplePlace): Example[] {
  const ask = (path: string, body: object) => `curl ${url}/sandkeep/v1${path} \\
  -H "Authorization: Bearer $SANDKEEP_API_KEY" \\
  -H "Content-Type: application/json" -d '${JSON.stringify(body)}'`;
  const text = sandbox
    ? ask(`/sandboxes/${sandbox.name}/commands`, { command: "uname", args: ["-s"] })
    : ask("/sandboxes", {});
  const line = sandbox
    ? `sandkeep exec ${sandbox.name} -- uname -s\nsandkeep shell ${sandbox.name}`
    : "sandkeep run -- uname -s";
  return [
    { title: "curl", text },
    { title: "sandkeep", text: line },
  ];
}
