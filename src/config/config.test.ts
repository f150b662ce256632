/** Settings: where each comes from, what each may be, what is said of a bad one, and that each is documented. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../../test/harness/harness.ts";
import { flagOf, presetOf, readConfig, serveUsage, settings } from "./config.ts";

test("without a word every setting is its default", () => {
  expect(readConfig([], {}, true)).toMatchObject({
    host: "127.0.0.1",
    port: 7700,
    dataDir: "/var/lib/sandkeep",
    domain: "localhost",
    defaultTimeout: 300_000,
    maxTimeout: 86_400_000,
    snapshotExpiration: 30 * 86_400_000,
    stopAll: false,
  });
});

test("data is kept in the user's home unless the user is root", () => {
  expect(readConfig([], { HOME: "/home/ada" }, false).dataDir).toBe("/home/ada/.local/share/sandkeep");
});

test("a flag wins over the environment, and the environment over the default", () => {
  const environment = { SANDKEEP_PORT: "1", SANDKEEP_HOST: "::1", SANDKEEP_STOP_ALL: "true" };
  expect(readConfig(["--port", "2"], environment)).toMatchObject({ port: 2, host: "::1", stopAll: true });
  expect(readConfig(["--port=0", "--stop-all"], {})).toMatchObject({ port: 0, stopAll: true });
});

test("an empty variable is no variable", () => {
  expect(readConfig([], { SANDKEEP_PORT: "", SANDKEEP_API_KEY: " " })).toMatchObject({ port: 7700 });
});

test("durations and sizes have units, lists have commas, and a relative path begins here", () => {
  const config = readConfig(["--max-timeout", "90m", "--max-disk=1.5G", "--data-dir", "data"], {
    SANDKEEP_OUTPUT_RETENTION: "0",
    SANDKEEP_DEFAULT_TIMEOUT: "2000",
    SANDKEEP_REGIONS: "home1, home2",
    SANDKEEP_DNS: "1.1.1.1:5353,[2606:4700::1111]:53,::1",
    SANDKEEP_EGRESS_ALLOW: "10.0.0.0/8,fd00::/8",
    SANDKEEP_EGRESS_PROXY: "http://me:a%20b@proxy.test:3128",
    SANDKEEP_EGRESS_NO_PROXY: "corp.test, 1.2.0.0/16",
    SANDKEEP_SANDBOX_ENV: "TZ=UTC,NO_PROXY=a.test,b.test, EMPTY=",
  });
  expect(config).toMatchObject({
    maxTimeout: 5_400_000,
    maxDisk: 1.5 * 2 ** 30,
    dataDir: join(process.cwd(), "data"),
    outputRetention: 0,
    defaultTimeout: 2000,
    regions: ["home1", "home2"],
    dns: ["1.1.1.1:5353", "[2606:4700::1111]:53", "::1"],
    egressAllow: ["10.0.0.0/8", "fd00::/8"],
    egressProxy: { host: "proxy.test", port: 3128, authorization: `Basic ${Buffer.from("me:a b").toString("base64")}` },
    egressNoProxy: ["corp.test", "1.2.0.0/16"],
    sandboxEnv: { TZ: "UTC", NO_PROXY: "a.test,b.test", EMPTY: "" },
  });
});

test.each([
  [["--port", "http"], {}, 'Cannot use --port "http": it must be a whole number from 0 to 65535'],
  [[], { SANDKEEP_PORT: "65536" }, 'Cannot use SANDKEEP_PORT "65536": it must be a whole number from 0 to 65535'],
  [[], { SANDKEEP_HOST: "a b" }, 'Cannot use SANDKEEP_HOST "a b": it must be an address or a host name'],
  [["--data-dir="], {}, 'Cannot use --data-dir "": it must be a path'],
  [["--domain", "*.x"], {}, /Cannot use --domain "\*\.x": it must be a domain name/],
  [["--public-url", "ftp://x"], {}, /Cannot use --public-url "ftp:\/\/x": it must be a URL with http or https/],
  [["--public-url", "https://x/y"], {}, /it must be a URL with http or https and no path/],
  [["--max-timeout", "5 parsecs"], {}, /Cannot use --max-timeout "5 parsecs": it must be a duration/],
  [["--max-timeout", "0"], {}, /it must be a duration of at least 1s, such as 90s or 5m or 24h or 30d/],
  [["--snapshot-expiration", "1h"], {}, /it must be 0 or a duration of at least 1d, such as 24h or 30d/],
  [["--max-memory", "1K"], {}, /it must be a size of at least/],
  [["--max-memory", "1e99"], {}, /it must be a size/],
  [["--dns", "1.1.1.1,dns.example"], {}, /Cannot use --dns "1.1.1.1,dns.example": it must be addresses/],
  [["--dns", "1.1.1.1:0"], {}, /it must be addresses/],
  [["--egress-allow", "10.0.0.0/33"], {}, /it must be ranges/],
  [["--egress-allow", "10.0.0.0/8/8"], {}, /it must be ranges/],
  [[], { SANDKEEP_SANDBOX_ENV: "hunter2" }, /^Cannot use SANDKEEP_SANDBOX_ENV: it must be variables such as/],
  [[], { SANDKEEP_SANDBOX_ENV: '{"A":1}' }, /^Cannot use SANDKEEP_SANDBOX_ENV: it must be variables such as/],
  [
    [],
    { SANDKEEP_EGRESS_PROXY: "socks5://u:hunter2@p" },
    /^Cannot use SANDKEEP_EGRESS_PROXY: it must be a URL such as/,
  ],
  [
    [],
    { SANDKEEP_IMAGE_ALIASES: "node:22" },
    /^Cannot use SANDKEEP_IMAGE_ALIASES "node:22": it must be names and images/,
  ],
  [[], { SANDKEEP_IMAGE_ALIASES: "a=b,c d=e" }, /it must be names and images such as/],
  [[], { SANDKEEP_IMAGE_ALIASES: "a=B" }, /it must be names and images such as/],
  [[], { SANDKEEP_EGRESS_PROXY: "http://u:%zz@p" }, /^Cannot use SANDKEEP_EGRESS_PROXY: it must be a URL such as/],
  [["--egress-no-proxy", "a b"], {}, /Cannot use --egress-no-proxy "a b": it must be domains and ranges/],
  [["--regions", "a,,b"], {}, /Cannot use --regions "a,,b": it must be names/],
  [[], { SANDKEEP_STOP_ALL: "maybe" }, /Cannot use SANDKEEP_STOP_ALL "maybe": it must be true or false/],
  [["--default-vcpus", "64"], {}, /Cannot use --default-vcpus "64": it must be at most 32/],
  [["--default-timeout", "48h"], {}, /Cannot use --default-timeout "48h": it must be at most 1d, which is/],
  [["--store-size", "1M"], {}, /it must be a size of at least 1G, such as 32G$/],
  [["--port", "6000"], {}, /Cannot use --port "6000": .*fetch\(\) refuses this one/],
  [[], { SANDKEEP_DURABILITY: "maybe" }, /^Cannot use SANDKEEP_DURABILITY "maybe": it must be power or process$/],
  [["--nonsense"], {}, /Cannot serve: Unknown option '--nonsense' \(/],
  [["--pool-hott=1"], {}, /Cannot serve: Unknown option '--pool-hott'. Did you mean "--pool-hot"\? \(/],
  [["surprise"], {}, /Cannot serve: Unexpected argument 'surprise'/],
])("a bad value is a sentence that names the setting: %j %j", (args, environment, sentence) => {
  expect(() => readConfig(args, environment)).toThrow(sentence);
});

test("aliases of images are pairs, with wildcards, and a name may have a registry, a tag and a digest", () => {
  const text = "vcr.vercel.com/vercel/eve/base:*=debian, */tools@sha256:*=team/tools:v1,";
  expect(readConfig([], { SANDKEEP_IMAGE_ALIASES: text }).imageAliases).toEqual({
    "vcr.vercel.com/vercel/eve/base:*": "debian",
    "*/tools@sha256:*": "team/tools:v1",
  });
  expect(readConfig([], {}).imageAliases).toEqual({});
});

test("a limit below a default that nobody set lowers the default", () => {
  expect(readConfig(["--max-vcpus", "1", "--max-timeout", "1m"], {})).toMatchObject({
    defaultVcpus: 1,
    defaultTimeout: 60_000,
  });
});

test("a secret is not repeated when it is bad, and is no flag", () => {
  expect(() => readConfig([], { SANDKEEP_API_KEY: "hunter2" })).toThrow(
    /^Cannot use SANDKEEP_API_KEY: it must be 16 to 256 characters without spaces$/,
  );
  expect(() => readConfig([], { SANDKEEP_DATABASE_URL: "mysql://u:hunter2@h/d" })).toThrow(/^(?!.*hunter2)/);
  expect(() => readConfig(["--api-key=hunter2hunter2hunter2"], {})).toThrow(
    /^Cannot use --api-key: it is a secret(?!.*hunter2)/,
  );
});

test("the help names every setting, its flag and its default", () => {
  const help = serveUsage();
  for (const [key, setting] of Object.entries(settings)) {
    expect(help).toContain(setting.env);
    expect(help).toContain(setting.meaning);
    expect(help).toContain(presetOf(key));
    expect(new RegExp(`--${flagOf(setting)}[ ,]`).test(help)).toBe(!setting.secret);
  }
});

test("docs/configuration.md has a row for every setting, as the code says, and for nothing else", () => {
  const text = readFileSync(join(root, "docs/configuration.md"), "utf8");
  const rows = text.split("\n").filter((line) => line.startsWith("| `SANDKEEP_"));
  const wanted = Object.entries(settings).map(([key, setting]) => {
    const flag = setting.secret ? "" : `\`--${flagOf(setting)}\``;
    return `| \`${setting.env}\` | ${flag} | ${setting.meaning.replaceAll("<", "&lt;")} | ${presetOf(key)} |`;
  });
  expect(rows.toSorted()).toEqual(wanted.toSorted());
});

test("what sandboxes reach is said in the same words wherever it is said", () => {
  const plain = (file: string) => readFileSync(join(root, file), "utf8").replace(/\s+/g, " ");
  const [sentences] =
    /Sandboxes reach the public internet.*?whatever a network policy says\./.exec(plain("README.md")) ?? [];
  for (const file of ["docs/network-policy.md", "docs/configuration.md"]) expect(plain(file)).toContain(sentences);
});
