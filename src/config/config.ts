/**
 * Every setting of the daemon: its name, default, meaning and what it may be, in one schema. A setting is read from a
 * flag, else from the environment, else it is its default; a bad value is a sentence that names the setting.
 */

import { parseArgs } from "node:util";
import { z } from "zod";
import { optionProblem } from "../base/similar.ts";
import { SandkeepError } from "../core/model/errors.ts";
import { logFormats, logLevels } from "../log/log-line.ts";
import { defaultDataDir } from "./default-data-dir.ts";
import { imageSettings } from "./image-settings.ts";
import { retentionSettings } from "./retention-settings.ts";
import {
  aliases,
  day,
  domain,
  duration,
  durationText,
  gibibyte,
  host,
  isPlace,
  isRange,
  isResolver,
  list,
  mebibyte,
  minute,
  name,
  origin,
  path,
  port,
  proxy,
  type Setting,
  second,
  size,
  variables,
  whole,
} from "./setting-values.ts";
import { tlsSettings } from "./tls-settings.ts";

export type { Setting };

const about = z.registry<Setting>();

/** Times are milliseconds, sizes bytes. */
const schema = z.object({
  host: host().default("127.0.0.1").register(about, {
    env: "SANDKEEP_HOST",
    value: "address",
    meaning: "address to listen on; only this host can reach the default",
  }),
  port: port().default(7700).register(about, {
    env: "SANDKEEP_PORT",
    value: "port",
    meaning: "port to listen on; 0 takes any that is free",
  }),
  dataDir: path().optional().register(about, {
    env: "SANDKEEP_DATA_DIR",
    value: "directory",
    meaning: "where everything is kept that must outlive the daemon",
    preset: "/var/lib/sandkeep",
  }),
  runDir: path().default("/run/sandkeep").register(about, {
    env: "SANDKEEP_RUN_DIR",
    value: "directory",
    meaning: "where sockets are; a file system that is empty after a reboot",
  }),
  databaseUrl: z
    .string()
    .regex(/^postgres(ql)?:\/\/\S+$/, "a URL that begins with postgres://")
    .optional()
    .register(about, {
      env: "SANDKEEP_DATABASE_URL",
      value: "url",
      meaning: "the PostgreSQL database to use",
      preset: "SQLite, in a file of the data directory",
      secret: true,
    }),
  apiKey: z
    .string()
    .regex(/^[\x21-\x7e]{16,256}$/, "16 to 256 characters without spaces")
    .optional()
    .register(about, {
      env: "SANDKEEP_API_KEY",
      value: "key",
      meaning: "a key of the default team, without limits",
      preset: "one is made at the first start and written to api-key in the data directory",
      secret: true,
    }),
  domain: domain().default("localhost").register(about, {
    env: "SANDKEEP_DOMAIN",
    value: "name",
    meaning: "the domain below which the ports of sandboxes are reached, as <subdomain>.<domain>",
  }),
  publicUrl: origin().optional().register(about, {
    env: "SANDKEEP_PUBLIC_URL",
    value: "url",
    meaning: "where clients reach the daemon if it is behind another server, such as a proxy that speaks TLS",
    preset: "the address and the port that it listens on, or with TLS a name of the certificate and the port",
  }),
  allowedHosts: list(domain()).register(about, {
    env: "SANDKEEP_ALLOWED_HOSTS",
    value: "name,…",
    meaning: "further names that clients reach the daemon by",
    preset: "none; addresses, localhost, names without a dot, and those of the two settings before always do",
  }),
  ...tlsSettings(about),

  defaultImage: name("the name of an image").default("host").register(about, {
    env: "SANDKEEP_DEFAULT_IMAGE",
    value: "image",
    meaning: "what a sandbox boots from when its caller names nothing",
  }),
  imageAliases: aliases().register(about, {
    env: "SANDKEEP_IMAGE_ALIASES",
    value: "list",
    meaning: "images by further names, such as team/*=host,tools:v1=debian; a * stands for any text",
    preset: "none; those of `sandkeep image alias` count besides",
  }),
  defaultVcpus: whole(1, 1024).default(2).register(about, {
    env: "SANDKEEP_DEFAULT_VCPUS",
    value: "count",
    meaning: "processors of a sandbox whose caller asks for no number",
  }),
  defaultTimeout: duration(second)
    .default(5 * minute)
    .register(about, {
      env: "SANDKEEP_DEFAULT_TIMEOUT",
      value: "duration",
      meaning: "how long a session runs when its caller does not say",
      preset: "5m",
    }),

  maxVcpus: whole(1, 1024).default(32).register(about, {
    env: "SANDKEEP_MAX_VCPUS",
    value: "count",
    meaning: "most processors a sandbox may ask for",
  }),
  maxMemory: size(64 * mebibyte)
    .default(64 * gibibyte)
    .register(about, {
      env: "SANDKEEP_MAX_MEMORY",
      value: "size",
      meaning: "most memory a sandbox may have",
      preset: "64G",
    }),
  maxTimeout: duration(second).default(day).register(about, {
    env: "SANDKEEP_MAX_TIMEOUT",
    value: "duration",
    meaning: "longest a session may run, extensions included",
    preset: "24h",
  }),
  maxDisk: size(16 * mebibyte)
    .default(32 * gibibyte)
    .register(about, {
      env: "SANDKEEP_MAX_DISK",
      value: "size",
      meaning: "how much a sandbox may hold above its image, in all its sessions and snapshots together",
      preset: "32G",
    }),
  maxProcesses: whole(16, 4_000_000).default(4096).register(about, {
    env: "SANDKEEP_MAX_PROCESSES",
    value: "count",
    meaning: "most processes and threads in a sandbox",
  }),
  maxPorts: whole(0, 1000).default(15).register(about, {
    env: "SANDKEEP_MAX_PORTS",
    value: "count",
    meaning: "most ports of a sandbox that have a route",
  }),
  maxOutput: size(mebibyte)
    .default(64 * mebibyte)
    .register(about, {
      env: "SANDKEEP_MAX_OUTPUT",
      value: "size",
      meaning:
        "how much output of a command is kept: with readers it waits for them at this limit, else the oldest goes first",
      preset: "64M",
    }),
  maxOutputTotal: size(8 * mebibyte)
    .default(256 * mebibyte)
    .register(about, {
      env: "SANDKEEP_MAX_OUTPUT_TOTAL",
      value: "size",
      meaning: "how much output of all commands of a session is kept; the oldest goes first",
      preset: "256M",
    }),
  maxOpenFiles: whole(1000, Number.MAX_SAFE_INTEGER).optional().register(about, {
    env: "SANDKEEP_MAX_OPEN_FILES",
    value: "count",
    meaning: "number of open files on the host above which the sandbox with the most loses processes",
    preset: "half of fs.file-max",
  }),
  maxSandboxes: whole(1, 1_000_000).default(1000).register(about, {
    env: "SANDKEEP_MAX_SANDBOXES",
    value: "count",
    meaning: "most sandboxes that run or are paused at the same time",
  }),
  diskReserve: size(64 * mebibyte)
    .optional()
    .register(about, {
      env: "SANDKEEP_DISK_RESERVE",
      value: "size",
      meaning: "how much of the disk of the data directory stays free; with less left, sandboxes cannot grow",
      preset: "a twentieth of the disk, between 256M and 2G",
    }),
  storeSize: size(gibibyte).optional().register(about, {
    env: "SANDKEEP_STORE_SIZE",
    value: "size",
    meaning:
      "size of a new store on a disk that is not btrfs; the store then takes all its room from the disk at the start, and so does one that exists, which keeps its size",
    preset: "nine tenths of what is free, taken as sandboxes need it",
  }),
  maxDriveSize: size(gibibyte)
    .default(16 * 1024 * gibibyte)
    .register(about, {
      env: "SANDKEEP_MAX_DRIVE_SIZE",
      value: "size",
      meaning: "largest size of a drive",
      preset: "16T",
    }),

  poolHot: whole(0, 1000).default(4).register(about, {
    env: "SANDKEEP_POOL_HOT",
    value: "count",
    meaning: "machines kept booted, from the default image and, up to half of them, from others used lately",
  }),
  poolWarm: whole(0, 1000).default(4).register(about, {
    env: "SANDKEEP_POOL_WARM",
    value: "count",
    meaning: "machines kept ready to boot from anything",
  }),

  ...imageSettings(about),
  ...retentionSettings(about),

  regions: list(name("names of lowercase letters and digits, separated by commas")).register(about, {
    env: "SANDKEEP_REGIONS",
    value: "name,…",
    meaning: "regions that callers may name; all are this host, and the first is the default",
    preset: "iad1 and 18 more",
  }),

  dns: list(z.string().refine(isResolver, "addresses with or without a port, separated by commas")).register(about, {
    env: "SANDKEEP_DNS",
    value: "address,…",
    meaning: "resolvers that answer for sandboxes",
    preset: "those of /etc/resolv.conf",
  }),
  egressAllow: list(z.string().refine(isRange, "ranges such as 10.1.0.0/16, separated by commas")).register(about, {
    env: "SANDKEEP_EGRESS_ALLOW",
    value: "range,…",
    meaning: "private and link-local ranges, and addresses of this host, that sandboxes may reach",
    preset: "none",
  }),
  webhookAllow: list(z.string().refine(isRange, "ranges such as 10.1.0.0/16, separated by commas")).register(about, {
    env: "SANDKEEP_WEBHOOK_ALLOW",
    value: "range,…",
    meaning: "private and loopback ranges that webhooks may reach, also without TLS",
    preset: "none",
  }),
  egressDeny: list(z.string().refine(isRange, "ranges such as 10.1.0.0/16, separated by commas")).register(about, {
    env: "SANDKEEP_EGRESS_DENY",
    value: "range,…",
    meaning: "ranges that no sandbox may reach, whatever its network policy says",
    preset: "none",
  }),
  egressCa: path().optional().register(about, {
    env: "SANDKEEP_EGRESS_CA",
    value: "file",
    meaning:
      "certificates (PEM) to believe besides the host's own, inside sandboxes, where rules open TLS, and of registries",
    preset: "none",
  }),
  egressProxy: proxy().register(about, {
    env: "SANDKEEP_EGRESS_PROXY",
    value: "url",
    meaning: "the HTTP proxy that connections of sandboxes to public addresses go through (CONNECT)",
    preset: "none",
    secret: true,
  }),
  egressProxyNames: z.stringbool("true or false").default(false).register(about, {
    env: "SANDKEEP_EGRESS_PROXY_NAMES",
    meaning: "ask the proxy for names where they are known; it then decides where a name leads",
  }),
  egressNoProxy: list(
    z.string().refine(isPlace, "domains and ranges such as corp.example.com,192.0.2.0/24, separated by commas"),
  ).register(about, {
    env: "SANDKEEP_EGRESS_NO_PROXY",
    value: "place,…",
    meaning: "domains, with all below them, and ranges that are reached without the proxy",
    preset: "none",
  }),
  sandboxEnv: variables().register(about, {
    env: "SANDKEEP_SANDBOX_ENV",
    value: "name=value,…",
    meaning: "variables that every command in a sandbox gets unless its caller sets them; or a JSON object",
    preset: "none",
    secret: true,
  }),
  logFormat: z
    .enum(logFormats, logFormats.join(" or "))
    .default("pretty")
    .register(about, {
      env: "SANDKEEP_LOG_FORMAT",
      value: logFormats.join("|"),
      meaning: "how the log on stderr is written: a sentence a line for people, or JSON for programs",
    }),
  logLevel: z
    .enum(logLevels, logLevels.join(", "))
    .default("info")
    .register(about, {
      env: "SANDKEEP_LOG_LEVEL",
      value: logLevels.join("|"),
      meaning: "the least important lines that the log has",
    }),
  logRequests: z.stringbool("true or false").default(false).register(about, {
    env: "SANDKEEP_LOG_REQUESTS",
    meaning: "write a line for each request at level info; else at level debug",
  }),
  drainTimeout: duration(0)
    .default(10 * second)
    .register(about, {
      env: "SANDKEEP_DRAIN_TIMEOUT",
      value: "duration",
      meaning: "how long a stopping daemon waits for requests that are under way",
      preset: "10s",
    }),
  stopAll: z.stringbool("true or false").default(false).register(about, {
    env: "SANDKEEP_STOP_ALL",
    meaning: "stop every sandbox when the daemon stops; else they run on",
  }),
  conformanceFixtures: z.stringbool("true or false").default(false).register(about, {
    env: "SANDKEEP_CONFORMANCE_FIXTURES",
    meaning: "for tests only: add to /mcp what the conformance suite of MCP asks a server for",
  }),
});

export type Config = z.output<typeof schema> & { dataDir: string };

/** every setting by its name in Config */
export const settings: Record<string, Setting> = Object.fromEntries(
  Object.entries(schema.shape).map(([key, field]) => [key, settingOf(key, field)]),
);

/** What the daemon shall do, from `sandkeep serve`'s arguments and the environment. */
export function readConfig(args: string[], environment: NodeJS.ProcessEnv, isRoot = process.getuid?.() === 0): Config {
  const flags = flagsIn(args);
  const given = Object.entries(settings).flatMap(([key, setting]) => {
    const flag = setting.secret ? undefined : flags[flagOf(setting)];
    const text = flag === undefined ? environment[setting.env] : String(flag);
    // Shell scripts set an empty variable when they have no value.
    if (flag === undefined && (text === undefined || text.trim() === "")) return [];
    return [{ key, setting, text: text ?? "", source: flag === undefined ? setting.env : `--${flagOf(setting)}` }];
  });
  const parsed = schema.safeParse(Object.fromEntries(given.map(({ key, text }) => [key, text.trim()])));
  if (parsed.success) {
    const dataDir = parsed.data.dataDir ?? defaultDataDir(environment, isRoot);
    return consistent({ ...parsed.data, dataDir }, given);
  }
  const [issue] = parsed.error.issues;
  const offender = given.find(({ key }) => key === issue?.path[0]);
  throw refusal(
    offender?.source ?? "a setting",
    offender?.setting.secret ? "" : ` "${offender?.text}"`,
    issue?.message,
  );
}

/** What `sandkeep serve --help` prints. */
export function serveUsage(): string {
  const rows = Object.entries(settings).map(([key, setting]) => {
    const flag = setting.secret ? "" : `--${flagOf(setting)}${setting.value ? ` <${setting.value}>` : ""}, `;
    return `  ${flag}${setting.env}\n      ${setting.meaning}\n      default: ${presetOf(key)}\n`;
  });
  return `Usage: sandkeep serve [options]

Runs the daemon. Each setting is a flag or a variable of the environment; a flag wins. A duration is a number of
milliseconds or has a unit (90s, 5m, 24h, 30d), a size is a number of bytes or has one (512M, 32G).

${rows.join("")}
Example:
  sudo "$(command -v sandkeep)" serve --port 7700
`;
}

/** a setting's default as people write it */
export function presetOf(key: string): string {
  const preset = settings[key]?.preset;
  if (preset !== undefined) return preset;
  const defaults: Record<string, unknown> = schema.parse({});
  return String(defaults[key]);
}

/** "max-vcpus" of SANDKEEP_MAX_VCPUS */
export function flagOf({ env }: Setting): string {
  return env.slice("SANDKEEP_".length).toLowerCase().replaceAll("_", "-");
}

function settingOf(key: string, field: z.ZodType): Setting {
  const setting = about.get(field);
  if (!setting) throw new SandkeepError("internal", `The setting "${key}" has no description`);
  return setting;
}

function flagsIn(args: string[]): Record<string, string | boolean | undefined> {
  const open = Object.values(settings).filter(({ secret }) => !secret);
  const hidden = Object.values(settings).filter(({ secret }) => secret);
  const asFlag = hidden.find((setting) => args.some((arg) => arg.split("=")[0] === `--${flagOf(setting)}`));
  if (asFlag) {
    const why = `it is a secret, and command lines are public; set ${asFlag.env} instead`;
    throw new SandkeepError("invalid", `Cannot use --${flagOf(asFlag)}: ${why}`);
  }
  const options = Object.fromEntries(
    open.map((setting) => [flagOf(setting), { type: setting.value ? ("string" as const) : ("boolean" as const) }]),
  );
  try {
    return parseArgs({ args, options, allowPositionals: false }).values;
  } catch (cause) {
    const why = optionProblem(cause, Object.keys(options));
    throw new SandkeepError("invalid", `Cannot serve: ${why} (sandkeep serve --help shows what there is)`, { cause });
  }
}

/** the same configuration, with each default reduced to its own limit; throws where the operator has set a default above it */
function consistent(config: Config, given: { key: string; text: string; source: string }[]): Config {
  const { defaultVcpus, maxVcpus, defaultTimeout, maxTimeout } = config;
  const vcpus = given.find(({ key }) => key === "defaultVcpus");
  if (vcpus && defaultVcpus > maxVcpus)
    throw refusal(vcpus.source, ` "${vcpus.text}"`, `at most ${maxVcpus}, which is SANDKEEP_MAX_VCPUS`);
  const timeout = given.find(({ key }) => key === "defaultTimeout");
  if (timeout && defaultTimeout > maxTimeout) {
    const wanted = `at most ${durationText(maxTimeout)}, which is SANDKEEP_MAX_TIMEOUT`;
    throw refusal(timeout.source, ` "${timeout.text}"`, wanted);
  }
  return {
    ...config,
    defaultVcpus: Math.min(defaultVcpus, maxVcpus),
    defaultTimeout: Math.min(defaultTimeout, maxTimeout),
  };
}

function refusal(source: string, quoted: string, wanted = "something else"): SandkeepError {
  return new SandkeepError("invalid", `Cannot use ${source}${quoted}: it must be ${wanted}`);
}
