/** `sandkeep port`: the addresses of a sandbox's ports. */

import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { misuse } from "../errors.ts";
import { plainJson } from "../print/plain.ts";
import { printTable } from "../print/table.ts";
import { portOf } from "../units.ts";

export const portUsage = `Usage: sandkeep port [options] <sandbox> [port]...

Gives ports of a sandbox an address, and lists the ports that have one.

Options:
  --close                  take the addresses of these ports away
${daemonUsage}
Example:
  sandkeep port demo 3000
`;

export async function portCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, portUsage, { close: { type: "boolean" }, ...daemonOptions });
  if (values.help) return showUsage(portUsage, context);
  const [sandbox, ...rest] = positionals;
  if (!sandbox || (values.close && rest.length === 0))
    throw misuse("Cannot show ports: name a sandbox, and with --close its ports", portUsage);
  const ports = rest.map(portOf);
  const daemon = new Daemon(values, context);
  const query = daemon.scope;
  for (const port of ports) {
    const input = { params: { sandbox, port: String(port) }, query };
    const what = `${values.close ? "close" : "open"} port ${port} of "${sandbox}"`;
    const asked: Promise<unknown> = daemon.client.call(values.close ? "closePort" : "openPort", input);
    await daemon.askAbout(sandbox, what, asked);
  }
  const listed = daemon.client.call("listPorts", { params: { sandbox }, query });
  const { ports: found } = await daemon.askAbout(sandbox, `list the ports of "${sandbox}"`, listed);
  if (values.json) return context.print(plainJson(found)) as undefined;
  const rows = found.map(({ port, url }) => [String(port), url ?? "closed"]);
  printTable(["PORT", "ADDRESS"], rows, context);
}
