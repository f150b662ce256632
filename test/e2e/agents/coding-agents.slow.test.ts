/** The recipes of docs/agents.md with the real programs from npm: downloads some 460 MB at the first run. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { arch } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { root } from "../../harness/harness.ts";
import { outOfReach } from "../../runner/excuses.ts";
import { type AgentName, agents, benchOfFile, key, recipe } from "./coding-agents.ts";

const run = promisify(execFile);
const platform = `linux-${arch()}`;
/** as docs/agents.md names them; opencode-ai chooses between two programs on x64 */
const packages = [
  ...["@anthropic-ai/claude-code@2.1.325", `@anthropic-ai/claude-code-${platform}@2.1.325`],
  ...["@openai/codex@0.166.0", `@openai/codex@0.166.0-${platform}`],
  ...["opencode-ai@1.18.33", `opencode-${platform}@1.18.33`],
  ...(arch() === "x64" ? [`opencode-${platform}-baseline@1.18.33`] : []),
];
const fetchTime = 15 * 60_000;
const bench = benchOfFile(fetched, fetchTime);

test.for(Object.keys(agents) as AgentName[])(
  "%s from npm works on the project without having the key",
  { timeout: fetchTime },
  async (name, context) => {
    const found = bench();
    if (!found) return context.skip(outOfReach("the npm registry"));
    const { image, host, header } = agents[name];
    const [build = "", line = ""] = await recipe(name);
    await found.output(`echo bug > main.txt; ${build}`);
    const before = found.requests.length;
    const ran = await found.run(line, `run: sed -i s/bug/${image}/ main.txt; env > env.txt`);
    expect(ran, ran.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/\bdone\n$/) });
    expect(await found.file("main.txt")).toBe(`${image}\n`);
    const inside = await found.file("env.txt");
    expect(inside).toContain("KEY=placeholder");
    expect(inside).not.toContain(key);
    const turns = found.turnsSince(before);
    expect(turns.length).toBeGreaterThan(1);
    for (const turn of turns) {
      expect(turn.host).toBe(host);
      expect(turn.headers[header]).toMatch(new RegExp(`^(Bearer )?${key}$`));
    }
  },
);

/** the packages' archives, kept for later runs */
async function fetched(): Promise<string | undefined> {
  const folder = join(root, "node_modules/.cache/coding-agents");
  await mkdir(folder, { recursive: true });
  for (const name of packages) {
    const file = `${name.replace(/^@/, "").replace("/", "-").replace("@", "-")}.tgz`;
    if (existsSync(join(folder, file))) continue;
    const packed = run("npm", ["pack", "--loglevel=error", name], { cwd: folder });
    const reached = await packed.then(() => true, isReachable);
    if (!reached) return undefined;
  }
  return folder;
}

function isReachable(error: Error): boolean {
  if (/\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH)\b/.test(String(error)))
    return false;
  throw error;
}
