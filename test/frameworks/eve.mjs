/** Runs the agent of eve in ./eve by `eve eval`: it prepares the sandbox, takes a snapshot, and works in a copy of it. */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const eve = fileURLToPath(new URL("./node_modules/eve/bin/eve.js", import.meta.url));
const project = fileURLToPath(new URL("./eve", import.meta.url));
const env = { ...process.env, EVE_TELEMETRY_DISABLED: "1" };
const report = execFileSync(process.execPath, [eve, "eval", "--json"], { cwd: project, env, encoding: "utf8" });
// Lines about the preparation come before the report.
const { passed, failed, results } = JSON.parse(report.slice(report.indexOf("\n{") + 1));
console.log(JSON.stringify({ passed, failed, answers: JSON.parse(results[0].result.output) }));
