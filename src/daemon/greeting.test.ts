/** What a person reads at a start: whether keys can be read on the way, and how to start it as root. */

import { expect, test } from "vitest";
import { clients } from "../api/default-dialect.ts";
import { readConfig } from "../config/config.ts";
import { launcher } from "../installation/installation.ts";
import { commandAsRoot, commandLine, greeting } from "./greeting.ts";

test("the suggested command has the flags and variables that were given", () => {
  const environment = { SANDKEEP_PORT: "7811", SANDKEEP_API_KEY: "secret", HOME: "/" };
  expect(commandAsRoot(["serve", "--data-dir", "/my data", "--stop-all"], environment)).toBe(
    `sudo --preserve-env=SANDKEEP_PORT,SANDKEEP_API_KEY ${launcher} serve --data-dir '/my data' --stop-all`,
  );
  expect(commandAsRoot(["serve"], {})).toMatch(/^sudo \S+\/bin\/sandkeep serve$/);
});

test.each([
  [[], false],
  [["--host", "::1"], false],
  [["--host", "0.0.0.0"], true],
  [["--host", "192.0.2.7"], true],
  [["--host", "0.0.0.0", "--public-url", "https://sandkeep.example.com"], false],
  [["--host", "0.0.0.0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"], false],
])("that keys are sent in the clear is said where others can reach it: %j", (args, isSaid) => {
  const said = greeting({ url: "http://127.0.0.1:7700" }, readConfig(args, {}), {}, clients);
  expect(said.includes("without encryption")).toBe(isSaid);
});

test("the link that signs a browser in is shown if there is one", () => {
  const signInLink = "http://127.0.0.1:7700/ui/#once=0123";
  const started = { url: "http://127.0.0.1:7700", signInLink };
  expect(greeting(started, readConfig([], {}), {}, clients)).toContain(`signs you in once: ${signInLink}\n`);
  expect(greeting({ url: started.url }, readConfig([], {}), {}, clients)).not.toContain("/ui/");
});

test("a suggested command has the directories of the settings, if they are not the usual ones", () => {
  const config = readConfig(["--data-dir", "/my data", "--run-dir", "/run/other"], {});
  expect(commandLine("recover", config, {})).toBe(`${launcher} recover --data-dir '/my data' --run-dir /run/other`);
  expect(commandLine("serve", readConfig([], {}, true), {})).toBe(`${launcher} serve --data-dir /var/lib/sandkeep`);
});
