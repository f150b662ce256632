/**
 * A small kernel for JavaScript and TypeScript on Node. The main thread evaluates each request through V8's inspector: in
 * its REPL mode, `await` works at the top, declarations stay for the next execution and may be repeated. A worker reads
 * the requests, so that it can end code that never returns.
 */

import { createReadStream, writeSync } from "node:fs";
import { Session } from "node:inspector/promises";
import module, { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { isMainThread, parentPort, Worker } from "node:worker_threads";

/**
 * @typedef {{ code: string, environment: Record<string, string>, typescript?: boolean, interrupt?: undefined }} Execution
 * @typedef {Execution | { interrupt: true }} Request
 * @typedef {Record<string, unknown>} Bundle formats of a value, by media type
 */

/** how long the main thread may take to notice an interrupt by itself, in ms; after that its code is ended */
const patience = 100;

if (isMainThread) main();
else await readRequests();

function main() {
  const own = createRequire(join(process.cwd(), "cell.js"));
  Object.defineProperty(globalThis, "__sandkeep", {
    value: Object.freeze({ load: (/** @type {string} */ name) => loaded(own, name), see }),
  });
  Object.assign(globalThis, {
    require: own,
    display: (/** @type {unknown} */ value) => reply("display_data", { data: bundleOf(value) }),
  });
  // An error that nothing handles must not end the kernel.
  process.on("uncaughtException", (error) => console.error(error));
  process.on("unhandledRejection", (error) => console.error("Unhandled rejection:", error));
  const session = new Session();
  session.connect();
  const worker = new Worker(new URL(import.meta.url));
  /** @type {() => void} */
  let interrupt = () => undefined;
  worker.on("message", async (/** @type {Request} */ request) => {
    if (request.interrupt) {
      worker.postMessage("noticed");
      return interrupt();
    }
    /** @type {Promise<never>} */
    const stopped = new Promise((_, reject) => {
      interrupt = () => reject(interruption());
    });
    stopped.catch(() => undefined);
    await execute(session, request, stopped);
    worker.postMessage("done");
  });
}

/** in the worker: passes requests on, and ends code that does not notice an interrupt */
async function readRequests() {
  const port = parentPort;
  if (!port) throw new Error("This thread has no parent");
  const session = new Session();
  session.connectToMainThread();
  /** @type {() => void} */
  let noticed = () => undefined;
  let isRunning = false;
  port.on("message", (message) => {
    if (message === "done") isRunning = false;
    noticed();
  });
  for await (const line of createInterface({ input: createReadStream("", { fd: 3 }) })) {
    /** @type {Request} */
    const request = JSON.parse(line);
    port.postMessage(request);
    if (!request.interrupt) {
      isRunning = true;
      continue;
    }
    const isBusy = await new Promise((resolve) => {
      noticed = () => resolve(false);
      setTimeout(() => resolve(isRunning), patience);
    });
    if (isBusy) await session.post("Runtime.terminateExecution");
  }
  process.exit(0);
}

/**
 * @param {Session} session
 * @param {Execution} request
 * @param {Promise<never>} stopped
 */
async function execute(session, { code, environment, typescript }, stopped) {
  const before = withEnvironment(environment);
  try {
    const expression = withImports(typescript ? withoutTypes(code) : code);
    /** @type {import("node:inspector").Runtime.EvaluateParameterType & { replMode: boolean }} */
    const options = { expression, replMode: true, awaitPromise: true };
    const evaluation = session.post("Runtime.evaluate", options);
    /** @type {import("node:inspector").Runtime.EvaluateReturnType} */
    const { result, exceptionDetails } = await Promise.race([evaluation.catch(ended), stopped]);
    if (exceptionDetails && !exceptionDetails.exception) throw interruption();
    // A promise is shown as what it resolves to, which may take as long as the code itself.
    const value = await Promise.race([realValue(session, exceptionDetails?.exception ?? result), stopped]);
    if (exceptionDetails) throw value;
    if (value !== undefined) reply("execute_result", { data: bundleOf(value) });
  } catch (error) {
    reply("error", failureOf(error));
  }
  withEnvironment(before);
  reply("end", {});
}

/**
 * V8 answers with an error if the code was ended while it ran.
 * @param {Error} error
 * @returns {Promise<never>}
 */
function ended(error) {
  return Promise.reject(/terminated|internal error/i.test(error.message) ? interruption() : error);
}

function interruption() {
  return Object.assign(new Error("The execution was interrupted"), { name: "Interrupted" });
}

/** @type {unknown} */
let seen;

/** @param {unknown} value */
function see(value) {
  seen = value;
}

/**
 * The value itself of what the inspector describes.
 * @param {Session} session
 * @param {import("node:inspector").Runtime.RemoteObject} described
 */
async function realValue(session, { objectId, unserializableValue, value, type }) {
  if (type === "undefined") return undefined;
  const argument =
    objectId !== undefined ? { objectId } : unserializableValue !== undefined ? { unserializableValue } : { value };
  const { result } = await session.post("Runtime.evaluate", { expression: "globalThis" });
  await session.post("Runtime.callFunctionOn", {
    objectId: result.objectId,
    functionDeclaration: "function (value) { __sandkeep.see(value); }",
    arguments: [argument],
  });
  return seen;
}

/**
 * Sets variables; returns what they replaced, null for none.
 * @param {Record<string, string | null>} variables
 */
function withEnvironment(variables) {
  const before = Object.fromEntries(Object.keys(variables).map((name) => [name, process.env[name] ?? null]));
  for (const [name, value] of Object.entries(variables)) {
    if (value === null) delete process.env[name];
    else process.env[name] = value;
  }
  return before;
}

/**
 * A module, as code in the working directory would import it.
 * @param {NodeJS.Require} own
 * @param {string} name
 */
function loaded(own, name) {
  if (/^(node|file|data|https?):/.test(name)) return import(name);
  const path = own.resolve(name);
  return import(path.startsWith("/") ? pathToFileURL(path).href : path);
}

/**
 * A value's formats by media type; a method under this symbol, as other JavaScript kernels have it, may name them.
 * @param {unknown} value
 * @returns {Bundle}
 */
function bundleOf(value) {
  const own = Object(value)[Symbol.for("Jupyter.display")];
  if (typeof own === "function") return own.call(value);
  return { "text/plain": typeof value === "string" ? value : inspect(value, { depth: 4, maxArrayLength: 200 }) };
}

/** @param {unknown} value */
function failureOf(value) {
  const { name, message, stack } = Object(value);
  if (typeof stack !== "string") {
    return { ename: "Error", evalue: String(value), traceback: [`Uncaught ${inspect(value)}`] };
  }
  const isOurs = (/** @type {string} */ line) =>
    line.includes(import.meta.url) || /^ +at (.* \(?)?(node:|new Promise)/.test(line);
  return { ename: String(name), evalue: String(message), traceback: stack.split("\n").filter((line) => !isOurs(line)) };
}

/** @param {string} code */
function withoutTypes(code) {
  const { stripTypeScriptTypes } = module;
  if (!stripTypeScriptTypes) throw new Error(`Cannot run TypeScript: Node ${process.version} cannot strip types`);
  return stripTypeScriptTypes(code, { mode: "transform" });
}

/**
 * Static imports are for modules only, and an execution is a script: turns each into a declaration with `await`.
 * @param {string} code
 */
function withImports(code) {
  const statement =
    /(^|;)[ \t]*import\s+(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?\s*(?:from\s*)?(["'])([^"'\n]+)\5[ \t]*(?=;|$)/gm;
  const rewritten = code.replace(statement, (_all, start, main, all, some, _quote, name) => {
    const loaded = `await __sandkeep.load(${JSON.stringify(name)})`;
    const members = [...(main ? [`default: ${main}`] : []), ...(some ? [some.replaceAll(/\s+as\s+/g, ": ")] : [])];
    if (all) return `${start}const ${all} = ${loaded}${main ? `, ${main} = ${all}.default` : ""}`;
    return `${start}${members.length > 0 ? `const { ${members.join(", ")} } = ` : ""}${loaded}`;
  });
  return rewritten.replaceAll(/(^|[^\w$.])import\s*\(/g, "$1__sandkeep.load(");
}

/**
 * @param {string} kind
 * @param {object} content
 */
function reply(kind, content) {
  const line = Buffer.from(`${JSON.stringify([kind, content])}\n`);
  for (let at = 0; at < line.length; ) at += writeSync(4, line, at);
}
