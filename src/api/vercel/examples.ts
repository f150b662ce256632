/** How programs use a sandbox with the vendor's SDK, as the dashboard shows it. */

import type { Example, ExamplePlace } from "../kit/dialect.ts";

export function vercelExamples({ url, sandbox }: ExamplePlace): Example[] {
  const make = sandbox ? `Sandbox.get({ name: "${sandbox.name}" })` : "Sandbox.create()";
  const text = `eval "$(sandkeep env vercel --url ${url})"

import { Sandbox } from "@vercel/sandbox";
const sandbox = await ${make};
const command = await sandbox.runCommand("uname", ["-s"]);
console.log(await command.stdout());`;
  return [{ title: "@vercel/sandbox", text }];
}
