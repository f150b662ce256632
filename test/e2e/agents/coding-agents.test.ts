/** The recipes of docs/agents.md with a small program in place of each agent, installed from a registry of the test. */

import { execFileSync } from "node:child_process";
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { tempDir, type Undo } from "../../harness/harness.ts";
import { type AgentName, agents, type Bench, benchOfFile, key, keyPattern, recipe } from "./coding-agents.ts";

const programs = { "@anthropic-ai/claude-code": "claude", "@openai/codex": "codex", "opencode-ai": "opencode" };
const opened = benchOfFile(standIns);

function bench(): Bench {
  const found = opened();
  if (!found) throw new Error("The bench of these tests did not open");
  return found;
}

beforeEach(() => writeFile(join(bench().project, "main.txt"), "bug\n"));

test.each(Object.keys(agents) as AgentName[])("%s works on the project without having the key", async (name) => {
  const { image, host, header } = agents[name];
  const [build = "", run = ""] = await recipe(name);
  await bench().output(build);
  const before = bench().requests.length;
  const task = `run: sed -i s/bug/${image}/ main.txt; env > env.txt; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline > proc.txt;
    echo planted-$((1)) > /tmp/planted; grep -rlsE '${keyPattern}|planted-[1]' /etc /home /run /tmp /var /vercel > files.txt; curl -sS https://other.test/ 2> refused.txt`;
  const kept = run.replace("sandkeep run", `sandkeep run --keep --name ${image}`);
  const ran = await bench().run(kept, task.replaceAll(/\n\s+/g, " "));
  expect(ran).toMatchObject({ code: 0, stdout: "done\n" });
  expect(ran.stderr).toMatch(/Brought back to ".*\/project": \d written, 0 removed/);

  const turns = bench().turnsSince(before);
  expect(turns.map((turn) => turn.host)).toEqual([host, host]);
  for (const { headers } of turns) expect(headers[header]).toMatch(new RegExp(`^(Bearer )?${key}$`));
  expect(await bench().file("main.txt")).toBe(`${image}\n`);
  expect(await bench().file("env.txt")).toContain("KEY=placeholder");
  expect(await bench().file("proc.txt")).toContain("placeholder");
  expect(await bench().file("files.txt")).toBe("/tmp/planted\n");
  expect(await bench().file("refused.txt")).toMatch(/Could not resolve host: other\.test/);
  const log = await bench().output(`sandkeep egress ${image} --json`);
  expect(log).toContain('the policy does not allow \\"other.test\\"');
  const described = await bench().output(`sandkeep ls --json; sandkeep logs ${image}; sandkeep events --json`);
  const { daemon } = bench();
  const inside = [await bench().file("env.txt"), await bench().file("proc.txt")];
  for (const text of [...inside, log, described, daemon.said(), daemon.complaints()]) expect(text).not.toContain(key);
  expect((await bench().run(run, "fail")).code).toBe(7);
  expect(JSON.parse(await bench().output("sandkeep ls --json"))).toMatchObject([{ name: image }]);
  await bench().output(`sandkeep rm -f ${image}`);
});

test("a fork for a task has the files, the variables and the header of its origin", async () => {
  const [lines = ""] = await recipe("A fork for each task");
  const before = bench().requests.length;
  await bench().output(lines, "run: sed -i s/bug/fork/ main.txt");
  expect(await bench().file("result/main.txt")).toBe("fork\n");
  expect(await bench().file("main.txt")).toBe("bug\n");
  expect(
    bench()
      .turnsSince(before)
      .map(({ headers }) => headers["x-api-key"]),
  ).toEqual([key, key]);
  expect(JSON.parse(await bench().output("sandkeep ls --json"))).toMatchObject([{ name: "base" }]);
});

test("the database has no header's value in the clear", async () => {
  const { dataDir } = bench().daemon;
  const files = (await readdir(dataDir)).filter((name) => /\.(db|sqlite)(-wal)?$/.test(name));
  expect(files.length).toBeGreaterThan(0);
  for (const name of files) expect((await readFile(join(dataDir, name))).includes(key)).toBe(false);
});

/** a folder with a package for each agent: the same program under its names */
async function standIns(undo: Undo): Promise<string> {
  const folder = await tempDir(undo);
  for (const [name, program] of Object.entries(programs)) {
    const content = join(folder, program, "package");
    await mkdir(content, { recursive: true });
    const description = { name, version: "1.0.0", type: "module", bin: { [program]: "agent.mjs" } };
    await writeFile(join(content, "package.json"), JSON.stringify(description));
    await cp(join(import.meta.dirname, "stand-in-agent.mjs"), join(content, "agent.mjs"));
    execFileSync("tar", ["-czf", join(folder, `${program}.tgz`), "-C", join(folder, program), "package"]);
  }
  return folder;
}
