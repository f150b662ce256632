/** How programs use a sandbox with the vendor's client, as the dashboard shows it. */

import type { Example, ExamplePlace } from "../kit/dialect.ts";

export function veryfrontExamples({ url, sandbox }: ExamplePlace): Example[] {
  const make = sandbox ? `Sandbox.get("${sandbox.sessionId}")` : "Sandbox.create()";
  const text = `eval "$(sandkeep env veryfront --url ${url})"

import { Sandbox } from "veryfront/sandbox";
const sandbox = await ${make};
const { stdout } = await sandbox.executeCommand("uname -s");
console.log(stdout);`;
  return [{ title: "veryfront", text }];
}
