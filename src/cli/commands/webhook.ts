/** `sandkeep webhook`: addresses that the events of a project are sent to, and what became of each delivery. */

import type { Output } from "../../client/types.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError } from "../errors.ts";
import { plainJson } from "../print/plain.ts";
import { briefly, type Cell, printTable } from "../print/table.ts";
import { numberOf } from "../units.ts";
import { verbAndNames } from "../verbs.ts";

export const webhookUsage = `Usage: sandkeep webhook ls [options]
       sandkeep webhook create [--events <list>] [options] <url>
       sandkeep webhook rm [options] <id>
       sandkeep webhook enable [options] <id>
       sandkeep webhook disable [options] <id>
       sandkeep webhook rotate [options] <id>
       sandkeep webhook test [options] <id>
       sandkeep webhook deliveries [--limit <number>] [options] <id>
       sandkeep webhook redeliver [options] <id> <delivery>

Sends the events of a project to a URL, signed. create prints the secret that signs them, once, on standard output, and
rotate a new one. test sends an event and fails if the receiver does not accept it. deliveries lists what was sent and
what waits, the newest first, and redeliver sends one of them again. docs/webhooks.md says how to check a signature.

Options:
  --events <list>          create: only these, such as session,snapshot.created (all)
  --limit <number>         deliveries: how many (50, at most 1000)
${daemonUsage}
Example:
  sandkeep webhook create --events session,snapshot.created https://hooks.example.com/sandkeep
`;

/** how many names each takes */
const verbs = {
  ...{ ls: 0, create: 1, rm: 1, enable: 1, disable: 1, rotate: 1, test: 1 },
  ...{ deliveries: 1, redeliver: 2 },
};

const options = { events: { type: "string" }, limit: { type: "string" }, ...daemonOptions } as const;

type Webhook = Output<"getWebhook">;
type Delivery = Output<"testWebhook">;

export async function webhookCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { values, positionals } = await readArgs(args, webhookUsage, options);
  if (values.help) return showUsage(webhookUsage, context);
  const { verb, names } = verbAndNames("webhook", positionals, verbs, webhookUsage);
  for (const [option, its] of [
    ["events", "create"],
    ["limit", "deliveries"],
  ] as const)
    if (values[option] !== undefined && verb !== its)
      throw new CliError(`Cannot use --${option} with "webhook ${verb}": it is for ${its}`);
  const limit = numberOf("--limit", values.limit ?? "50");
  const daemon = new Daemon(values, context);
  const { client, scope: query } = daemon;
  const [webhook = "", delivery = ""] = names;
  const named = { params: { webhook }, query };
  const show = (value: object, text: string) => context.print(values.json ? plainJson(value) : text) as undefined;
  switch (verb) {
    case "ls": {
      const pages = pagesOf((page) =>
        daemon.ask("list the webhooks", client.call("listWebhooks", { query: { ...query, ...page } })),
      );
      const webhooks = (await Array.fromAsync(pages)).flatMap((page) => page.webhooks);
      return values.json ? show(webhooks, "") : printWebhooks(webhooks, context);
    }
    case "create": {
      const body = { url: webhook, ...(values.events !== undefined && { events: listOf(values.events) }) };
      const made = await daemon.ask(`send events to "${webhook}"`, client.call("createWebhook", { query, body }));
      if (!values.json) context.warn(`Made ${made.webhook.id}; its secret is not shown again:`);
      return show({ ...made.webhook, secret: made.secret }, made.secret);
    }
    case "rotate": {
      const made = await daemon.ask(`rotate the secret of "${webhook}"`, client.call("rotateWebhookSecret", named));
      if (!values.json) context.warn("The secret from before signs nothing any more; this one is not shown again:");
      return show({ ...made.webhook, secret: made.secret }, made.secret);
    }
    case "rm":
      await daemon.ask(`delete the webhook "${webhook}"`, client.call("deleteWebhook", named));
      return show({ id: webhook, deleted: true }, webhook);
    case "enable":
    case "disable": {
      const input = { ...named, body: { enabled: verb === "enable" } };
      const changed = await daemon.ask(`${verb} the webhook "${webhook}"`, client.call("changeWebhook", input));
      return show(changed, changed.id);
    }
    case "deliveries": {
      const input = { ...named, query: { ...query, limit } };
      const what = `list the deliveries of "${webhook}"`;
      const { deliveries } = await daemon.ask(what, client.call("listDeliveries", input));
      return values.json ? show(deliveries, "") : printDeliveries(deliveries, context);
    }
    default: {
      const sent = await (verb === "test"
        ? daemon.ask(`test the webhook "${webhook}"`, client.call("testWebhook", named))
        : daemon.ask(
            `send "${delivery}" again`,
            client.call("redeliver", { ...named, params: { webhook, delivery } }),
          ));
      // The state stays "delivered" once an attempt has succeeded; the reason is that of this attempt.
      if (values.json) show(sent, "");
      else if (sent.reason === null) context.print(`Sent ${sent.id}: the receiver answered ${sent.status}`);
      else context.warn(`Cannot deliver ${sent.id}: ${sent.reason}`);
      return sent.reason === null ? 0 : 1;
    }
  }
}

function listOf(text: string): string[] {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
}

function printWebhooks(webhooks: Webhook[], context: CommandContext): undefined {
  const rows = webhooks.map(({ id, url, events, createdAt, ...webhook }) => [
    id,
    url,
    stateOf(webhook, context.now()),
    events.join(",") || "all",
    briefly(context.now() - createdAt),
  ]);
  printTable(["ID", "URL", "STATE", "EVENTS", "AGE"], rows, context);
}

function stateOf(
  { enabled, disabledReason, failingSince }: Omit<Webhook, "id" | "url" | "events" | "createdAt">,
  now: number,
): Cell {
  if (!enabled) return { text: disabledReason === null ? "disabled" : `disabled: ${disabledReason}`, colour: "dim" };
  if (failingSince !== null) return { text: `failing for ${briefly(now - failingSince)}`, colour: "red" };
  return { text: "enabled", colour: "green" };
}

const colours = { delivered: "green", waiting: "yellow", failed: "red" } as const;

function printDeliveries(deliveries: Delivery[], context: CommandContext): undefined {
  const rows = deliveries.map(({ id, type, state, attempts, status, reason, dueAt, createdAt }): Cell[] => [
    id,
    type,
    { text: state, colour: colours[state] },
    String(attempts),
    status === null ? "-" : String(status),
    briefly(context.now() - createdAt),
    dueAt === null ? "-" : briefly(dueAt - context.now()),
    reason ?? "-",
  ]);
  printTable(["ID", "TYPE", "STATE", "ATTEMPTS", "STATUS", "AGE", "NEXT IN", "REASON"], rows, context);
}
