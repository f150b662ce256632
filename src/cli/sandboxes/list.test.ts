/** Tests of `sandkeep ps`, `logs` and `rm`: what they ask of a sandbox that has run several times. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { CommandContext } from "../command.ts";
import { rmCommand } from "./end.ts";
import { psCommand } from "./list.ts";
import { logsCommand } from "./logs.ts";

const api = "/sandkeep/v1";
const command = (id: string, sessionId: string, endedAt: number | null) => ({
  ...{ id, sessionId, command: "true", args: [], cwd: "/", startedAt: 0, endedAt, exitCode: endedAt, endCause: null },
});

/** a sandbox in its second session, whose name another one had before */
const answers: Record<string, object> = {
  [`GET ${api}/sandboxes/demo`]: { id: "sandbox_2", name: "demo", state: "stopped", session: { id: "sbx_2" } },
  [`GET ${api}/sessions`]: {
    sessions: [
      { id: "sbx_2", sandboxId: "sandbox_2" },
      { id: "sbx_1", sandboxId: "sandbox_2" },
      { id: "sbx_0", sandboxId: "sandbox_1" },
    ],
    next: null,
  },
  [`GET ${api}/sessions/sbx_2/commands`]: { commands: [command("cmd_c", "sbx_2", null)], next: null },
  [`GET ${api}/sessions/sbx_1/commands`]: {
    commands: [command("cmd_b", "sbx_1", 2), command("cmd_a", "sbx_1", 1)],
    next: null,
  },
  [`GET ${api}/snapshots`]: { snapshots: [{ sandboxId: "sandbox_2" }, { sandboxId: "sandbox_1" }], next: null },
  [`DELETE ${api}/sandboxes/demo`]: {},
};

async function fixture() {
  const asked: string[] = [];
  const server = createServer(({ method, url = "" }, response) => {
    const [path = ""] = url.split("?");
    asked.push(`${method} ${path.replace(api, "")}`);
    const answer = answers[`${method} ${path}`];
    response.setHeader("content-type", path.endsWith("/output") ? "application/x-ndjson" : "application/json");
    response.writeHead(answer || path.endsWith("/output") ? 200 : 404);
    response.end(path.endsWith("/output") ? "" : JSON.stringify(answer ?? { error: { message: "Not found." } }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const [lines, warnings]: [string[], string[]] = [[], []];
  const { port } = server.address() as AddressInfo;
  const context = {
    environment: { SANDKEEP_API_KEY: "sk_x", SANDKEEP_PORT: String(port) },
    dataDirs: [],
    now: () => 0,
    print: (line: string) => void lines.push(line),
    warn: (line: string) => void warnings.push(line),
  } as unknown as CommandContext; // these commands use nothing else
  return { asked, lines, warnings, context };
}

test("ps -a lists the programs of all sessions of the sandbox, and ps those that run", async () => {
  const { lines, context } = await fixture();
  await psCommand(["-a", "--json", "demo"], context);
  await psCommand(["--json", "demo"], context);
  const ids = lines.map((line) => JSON.parse(line).map(({ id }: { id: string }) => id));
  expect(ids).toEqual([["cmd_c", "cmd_b", "cmd_a"], ["cmd_c"]]);
});

test("logs finds a program of an earlier session by the beginning of its id", async () => {
  const { asked, context } = await fixture();
  await logsCommand(["demo", "cmd_a"], context);
  expect(asked.at(-1)).toBe("GET /sessions/sbx_1/commands/cmd_a/output");
  await expect(logsCommand(["demo", "cmd_"], context)).rejects.toThrow('3 commands begin with "cmd_"');
});

test("rm says which snapshots stay, unless it deletes them", async () => {
  const { lines, warnings, context } = await fixture();
  await rmCommand(["demo"], context);
  expect(warnings).toEqual(["1 snapshot stays: sandkeep snapshot ls demo lists it"]);
  await rmCommand(["--snapshots", "demo"], context);
  expect([lines, warnings.length]).toEqual([["demo", "demo"], 1]);
});
