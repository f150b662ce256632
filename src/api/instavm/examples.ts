/** How programs use a sandbox over the vendor's API, as the dashboard shows it. */

import type { Example, ExamplePlace } from "../kit/dialect.ts";

export function instavmExamples({ url, sandbox }: ExamplePlace): Example[] {
  if (!sandbox) return [];
  const fields = { session_id: sandbox.name, command: "print(6 * 7)" };
  const text = `curl ${url}/execute -H "X-API-Key: $SANDKEEP_API_KEY" \\
  -H "Content-Type: application/json" -d '${JSON.stringify(fields)}'`;
  return [{ title: "InstaVM", text }];
}
