/** How programs use a sandbox with the vendor's SDK, as the dashboard shows it. */

import { labelOf } from "../../core/model/sandbox-label.ts";
import type { Example, ExamplePlace } from "../kit/dialect.ts";

export function e2bExamples({ url, sandbox }: ExamplePlace): Example[] {
  const make = sandbox ? `Sandbox.connect("${labelOf(sandbox.id)}")` : "Sandbox.create()";
  const text = `eval "$(sandkeep env e2b --url ${url})"

import { Sandbox } from "e2b";
const sandbox = await ${make};
const { stdout } = await sandbox.commands.run("uname -s");
console.log(stdout);`;
  return [{ title: "e2b", text }];
}
