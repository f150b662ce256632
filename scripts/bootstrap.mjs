/**
 * Makes a fresh clone ready to run: installs the packages of the lockfile and missing programs of the host, and
 * compiles guest/. It runs before `npm start`, for what serving needs, and before `npm test` and the like, for what
 * developing needs. If nothing is to do, it prints nothing and takes no time.
 *
 *   node scripts/bootstrap.mjs [--test | --check | --bench]
 *
 * Plain JavaScript without dependencies for Node >= 18: this script installs Node 24 and everything else.
 */

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { advice, kernelComplaints, missing, onPath, packagesOf } from "./host-needs.mjs";
import { refusalOf } from "./packaged-node.mjs";
import { areCurrent, installArguments } from "./packages.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const [checking, testing, benching] = ["--check", "--test", "--bench"].map((flag) => process.argv.includes(flag));
const purposes = ["run", ...(testing ? ["test"] : []), ...(benching ? ["bench"] : [])];

// The egress process is not root's, and must be able to read Node and our code.
process.umask(0o022);

// Checked first: to prepare everything for a start that is refused would take long.
if (!checking && !testing && !benching && process.getuid?.() !== 0)
  fail("Cannot serve: making sandboxes needs root\nhint: sudo npm start, with the flags that you gave after --");
installPackages();
checkPackagedNode();
// Checking the code needs nothing of the host.
if (!checking) {
  installHostNeeds();
  buildGuest();
  for (const complaint of kernelComplaints()) say(complaint);
}

function installPackages() {
  const ownNode = hostNodeIsEnough() ? [] : [`node_modules/node-linux-${process.arch}`];
  const wanted = { dev: Boolean(checking || testing || benching), required: ownNode };
  const installed = packagesIn("node_modules/.package-lock.json");
  if (areCurrent(packagesIn("package-lock.json"), installed, wanted)) return;
  say("Installing the packages of package-lock.json");
  const args = installArguments(installed, wanted);
  const { status } = spawnSync("npm", args, { cwd: root, stdio: ["ignore", 2, 2], env: hostEnvironment() });
  if (status !== 0)
    fail(`Cannot install the packages: npm ci ${status === null ? "did not run" : `exited with ${status}`}`);
  if (!existsSync(join(root, "node_modules/.bin/node")) && !hostNodeIsEnough())
    fail(`Cannot run on ${process.arch} with Node ${process.versions.node}: install Node 24`);
}

/** From here on npm runs everything with the Node of node_modules; it must have the digest that we know. */
function checkPackagedNode() {
  const refusal = refusalOf(join(root, "node_modules"));
  if (refusal !== undefined) fail(refusal);
}

/**
 * @param {string} lockfile
 * @returns {import("./packages.mjs").Packages}
 */
function packagesIn(lockfile) {
  const path = join(root, lockfile);
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")).packages : {};
}

/** Whether this Node is not from node_modules and could run Sandkeep itself. */
function hostNodeIsEnough() {
  return !process.execPath.startsWith(join(root, "node_modules")) && Number.parseInt(process.versions.node, 10) >= 24;
}

/** The environment without node_modules/.bin on PATH: `npm ci` deletes that folder, so npm must not come from it. */
function hostEnvironment() {
  const path = (process.env.PATH ?? "")
    .split(delimiter)
    .filter((directory) => !directory.endsWith("node_modules/.bin"));
  return { ...process.env, PATH: path.join(delimiter) };
}

function installHostNeeds() {
  const wanted = packagesOf(missing(purposes));
  if (wanted.length === 0) return;
  const isRoot = process.getuid?.() === 0;
  if (isRoot && onPath("apt-get")) {
    say(`Installing system packages: ${wanted.join(" ")}`);
    aptInstall(wanted);
  }
  for (const line of advice(missing(purposes))) say(line);
}

/** @param {string[]} packages */
function aptInstall(packages) {
  const install = ["install", "--no-install-recommends", ...packages];
  if (apt(install, "ignore")) return;
  // The package lists of a fresh machine are empty or old. One name that is unknown even then must not prevent the
  // installation of the others.
  apt(["update"], 2);
  if (!apt(install, "ignore")) for (const name of packages) apt(["install", "--no-install-recommends", name], 2);
}

/**
 * @param {string[]} args
 * @param {"ignore" | 2} errors where its complaints go
 */
function apt(args, errors) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const quietly = ["-y", "-qq", "-o", "DPkg::Lock::Timeout=120"];
  return spawnSync("apt-get", [...quietly, ...args], { stdio: ["ignore", "ignore", errors], env }).status === 0;
}

function buildGuest() {
  const binary = join(root, "guest/build/sandkeep-guest");
  if (!onPath("make") || !onPath("cc")) {
    if (existsSync(binary)) return;
    const sentence = "Cannot compile guest/: there is no C compiler (cc) or no make";
    if (testing) return say(`${sentence}; tests that need it fail`);
    return fail(sentence);
  }
  const make = ["-s", "-C", join(root, "guest")];
  if (spawnSync("make", ["-q", ...make], { stdio: "ignore" }).status === 0) return;
  say("Compiling the native part in guest/");
  const { status } = spawnSync("make", make, { stdio: ["ignore", 2, 2] });
  if (status !== 0) fail("Cannot compile guest/: make failed, see above");
}

/** @param {string} sentence */
function say(sentence) {
  process.stderr.write(`sandkeep: ${sentence}\n`);
}

/**
 * @param {string} sentence
 * @returns {never}
 */
function fail(sentence) {
  say(sentence);
  process.exit(1);
}
