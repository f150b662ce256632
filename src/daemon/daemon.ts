/**
 * The composition root: the one file that knows every part. It starts them in the order in which they need each other
 * (lock, store, runtime, core, HTTP) and stops them in the other. Sandboxes go on when the daemon stops.
 */

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from "node:http";
import { flushCompileCache } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { advice, missing } from "../../scripts/host-needs.mjs";
import { clients, conventions, keyOfToken } from "../api/default-dialect.ts";
import { SignOuts } from "../api/kit/browser/sign-outs.ts";
import { Drain } from "../api/kit/connection/drain.ts";
import { answerMalformed, answerTwoHosts, apiListener, namesTwoHosts } from "../api/kit/connection/listener.ts";
import { clientAddress } from "../api/kit/http.ts";
import { storedIdempotency } from "../api/kit/idempotency.ts";
import { type Api, createApi } from "../api/server.ts";
import { after } from "../base/concurrency/waits.ts";
import { writeDurably } from "../base/files/durable-file.ts";
import { collectWhenIdle } from "../base/idle-collection.ts";
import { fewRandomBytes } from "../base/random-bytes.ts";
import type { RecoveryPlace } from "../cli/offline/recover.ts";
import { type Config, readConfig, serveUsage } from "../config/config.ts";
import { dataDirectory, makeDirectory, requireUsedDirectory, runDirectory } from "../config/directories.ts";
import { egressSettingsOf, trustedRootsOf } from "../config/network-settings.ts";
import { type TlsIdentity, tlsIdentityOf } from "../config/tls-settings.ts";
import { unknownSettings } from "../config/unknown-settings.ts";
import type { Context, Seal } from "../core/context.ts";
import { type Core, createCore } from "../core/core.ts";
import { SandkeepError } from "../core/model/errors.ts";
import { idsFrom } from "../core/model/ids.ts";
import type { RecoveryFiles } from "../core/ports/recovery-files.ts";
import type { Store } from "../core/ports/store.ts";
import { areBound, type BoundPair, bindFirst } from "../core/recovery/identity.ts";
import { diagnose } from "../host/diagnosis.ts";
import { isBelow } from "../ingress/host.ts";
import { createIngress } from "../ingress/ingress.ts";
import { dashboardFiles, egressMain, isClone, root } from "../installation/installation.ts";
import { isForCompiling, nativeProgram } from "../installation/native-program.ts";
import { logError, notices, openLog, redact, redacting, warn } from "../log/daemon-log.ts";
import type { Log } from "../log/log.ts";
import { about, inRequest, inUpgrade, origin, type RequestLog, speaks } from "../log/request-scope.ts";
import { type LinuxOptions, LinuxRuntime } from "../runtime/linux/driver.ts";
import { hostBootId } from "../runtime/linux/host/boot-id.ts";
import { realCommand } from "../runtime/linux/network/egress-view.ts";
import { pullerOptions } from "../runtime/linux/registry/access.ts";
import { DiskRoom } from "../runtime/linux/storage/disk-room.ts";
import { lockDirectory } from "../store/engines/directory-lock.ts";
import { DirectoryLineFiles } from "../store/line-files.ts";
import { databaseKind, requireDatabase } from "../store/missing-database.ts";
import { DirectoryRecoveryFiles } from "../store/recovery-files.ts";
import { openStore, placeOf, type StoreLocation } from "../store/sql-store.ts";
import { commandAsRoot, commandLine, greeting } from "./greeting.ts";
import { hostFacts } from "./host-facts.ts";
import { apiLimits, coreLimits } from "./limits.ts";
import { type ClosableServer, closeServer, listenOn, requireFree, withUpgraded } from "./listening.ts";
import { networkSecretsOf, trustOf } from "./network-secrets.ts";
import { domainUrlOf, listeningUrlOf, type Place, publicUrlOf, recordAddress } from "./place.ts";
import { hashKey, openSeal, signerFor } from "./secrets.ts";
import { signInLinkFor } from "./sign-in-link.ts";
import { finishStart, handleSignals, ignoreBrokenPipes } from "./signals.ts";
import { type SigningKey, signingKeyIn } from "./signing-key.ts";
import { renewed } from "./tls/certificate-watch.ts";
import { answerPlain, isPlain, refusePlain, SecureServer } from "./tls/secure-server.ts";
import { logUncaughtErrors, restart } from "./uncaught-errors.ts";
import { HttpWebhookSender } from "./webhook-sender.ts";

export interface Daemon {
  url: string;
  /** the key that was made at this start, if one was */
  newKey?: string;
  /** an address that signs a browser in once */
  signInLink?: string;
  core: Core;
  /** stops serving; sandboxes keep running unless all of them are to be stopped */
  stop(options?: { stopAll?: boolean; forced?: AbortSignal }): Promise<void>;
}

/** how long a daemon may take to stop after a second signal, in ms */
const forcedTimeout = 2000;
const egressCommand = [process.execPath, egressMain];

/** how long a failed start may take to undo its steps, in ms */
const undoTimeout = 10_000;

/** `sandkeep serve`: runs until a signal ends it */
export async function serve(args: string[]): Promise<void> {
  if (args.includes("--help") || args.includes("-h")) {
    process.stdout.write(serveUsage());
    return;
  }
  const config = readConfig(args, process.env);
  requireRoot("serve", "making sandboxes needs root", args, '; "doctor" instead of "serve" says what else is missing');
  // Before `npm start` in a clone, bootstrap.mjs has said so.
  if (!isClone) for (const line of advice(missing(["run"]).filter((need) => !isForCompiling(need)))) warn(line);
  ignoreBrokenPipes();
  const log = openLog(config);
  for (const sentence of unknownSettings(process.env)) warn(sentence);
  const env = { ...process.env };
  // Programs that it runs, such as mount, would inherit them.
  for (const name of secretSettings) delete process.env[name];
  const { asked, forced } = handleSignals();
  const start = finishStart(startDaemon(config, log), { asked, forced });
  const { started: daemon, isWanted } = await start.catch((error: unknown) => {
    // For people it is said where every command says it; a program that reads the log finds it there.
    if (config.logFormat === "pretty") throw error;
    logError(error);
    process.exit(1);
  });
  const broken = logUncaughtErrors(logError);
  // A program that reads this line may stop the daemon at once.
  if (isWanted) process.stdout.write(greeting(daemon, config, process.env, clients));
  collectWhenIdle();
  // Node does this at its exit, which a daemon that is killed does not reach.
  setImmediate(flushCompileCache);
  const isBroken = await Promise.race([asked.then(() => false), broken.then(() => true)]);
  if (isBroken) {
    const stop = (forced: AbortSignal) => daemon.stop({ forced }).catch(logError);
    // Clients know the port that it has now.
    const port = config.port === 0 ? [`--port=${new URL(daemon.url).port}`] : [];
    await restart({ stop, asked, args: [...process.argv.slice(1), ...port], env });
    process.exit(0);
  }
  process.stdout.write(config.stopAll ? "Stopping all sandboxes …\n" : "Stopping; sandboxes keep running …\n");
  forced.addEventListener("abort", () => {
    process.stdout.write("Stopping now …\n");
    // What is not closed by then is as if the daemon had been killed, which loses nothing.
    setTimeout(() => process.exit(0), forcedTimeout).unref();
  });
  await daemon.stop({ stopAll: config.stopAll, forced });
  // Everything is stored and closed; a connection that is just being made must not keep the process.
  process.exit(0);
}

async function startDaemon(config: Config, log: Log): Promise<Daemon> {
  const undo = new AsyncDisposableStack();
  let hasStarted = false;
  let stopsAll = false;
  try {
    const tls = tlsIdentityOf(config);
    await requireFreeAddress(config);
    // Throws if its user could not run it.
    realCommand(egressCommand);
    for (const directory of [dataDirectory(config.dataDir), runDirectory(config.runDir)]) {
      const removeMade = makeDirectory(directory);
      undo.defer(() => (hasStarted ? undefined : removeMade()));
    }
    // What follows writes to the disk.
    DiskRoom.makeStartable(reserveOf(config));
    undo.defer(lockDirectory(config.dataDir));
    const guest = await nativeProgram({ root, dataDir: config.dataDir, say: progress });
    const room = await DiskRoom.open({ ...reserveOf(config), say: warn });
    undo.defer(async () => room.close());
    const files = recoveryFilesOf(config);
    const store = await openStoreOf(config, files);
    undo.defer(() => store.close());
    const pair = pairOf(config, store, files);
    const isBound = await areBound(pair);
    const roots = trustedRootsOf(config);
    const runtime = runtimeOf(config, { guest, progress, roots: roots.pems, room });
    await runtime.open();
    undo.defer(() => {
      // What sandboxes run on goes with the last of them.
      return stopsAll ? runtime.shutdown() : runtime.leave();
    });
    if (!isBound) await bindFirst(pair, runtime, randomUUID());
    files.recordDatabaseKind(databaseKind(storeLocation(config)));
    await requireDefaultImage(config, runtime);
    const signingKey = signingKeyIn(join(config.dataDir, "oidc.key"));
    const place: Place = { config, port: config.port, tls };
    const networkSecrets = networkSecretsOf(place, signingKey);
    const context = { ...contextOf(config, store, runtime, files), ...trustOf(roots), networkSecrets };
    const core = createCore(context, { hash: hashKey, keyOfToken });
    const newKey = await core.access.prepare(config.apiKey);
    if (newKey !== undefined) writeDurably(join(config.dataDir, "api-key"), `${newKey}\n`);
    await core.open({ keepAll: !isBound });
    undo.defer(async () => {
      // Again: until the server was closed there were more to come.
      if (stopsAll) await core.stopAll();
      await core.close();
    });
    const { server, drain, url, api } = await listen(place, { core, store, signingKey, log, tls });
    recordAddress(url, config);
    let forcedSignal: AbortSignal | undefined;
    undo.defer(() => closeServer(server, drain.settled(config.drainTimeout, forcedSignal)));
    const signInLink = await signInLinkFor({ core, api, config, newKey, isTerminal: process.stdout.isTTY });
    const parts = undo.move();
    hasStarted = true;
    return {
      url,
      ...(newKey !== undefined && { newKey }),
      ...(signInLink !== undefined && { signInLink }),
      core,
      async stop({ stopAll = false, forced } = {}) {
        stopsAll = stopAll;
        forcedSignal = forced;
        if (stopAll) await core.stopAll();
        await parts.disposeAsync();
      },
    };
  } catch (error) {
    // Why it failed is said whether or not what was begun can be undone in time.
    await Promise.race([undo.disposeAsync().catch(logError), after(undoTimeout)]);
    throw error;
  }
}

/** A daemon that runs on the same directory is the better explanation of a port that is taken. */
async function requireFreeAddress({ host, port, dataDir }: Config): Promise<void> {
  try {
    await requireFree({ host, port });
  } catch (error) {
    if (existsSync(join(dataDir, "daemon.lock"))) lockDirectory(dataDir)();
    throw error;
  }
}

/** settings that have passwords and keys in them */
const secretSettings = ["SANDKEEP_API_KEY", "SANDKEEP_DATABASE_URL", "SANDKEEP_EGRESS_PROXY"];

/** a data directory and its database for "sandkeep recover", while no daemon uses them */
export async function openForRecovery(args: string[], { create }: { create: boolean }): Promise<RecoveryPlace> {
  const config = readConfig(args, process.env);
  await using undo = new AsyncDisposableStack();
  requireRoot("recover", "the data directory is root's", args);
  requireUsedDirectory(dataDirectory(config.dataDir), "recover");
  undo.defer(makeDirectory(runDirectory(config.runDir)));
  undo.defer(lockDirectory(config.dataDir, "recover"));
  const files = recoveryFilesOf(config);
  const location = storeLocation(config);
  const isMissing = "path" in location && !existsSync(location.path);
  const store = await openStore(isMissing && !create ? { path: ":memory:" } : location, {
    exclusive: endOvertaken,
    seal: sealOf(config).seal,
  });
  undo.defer(() => store.close());
  const guest = await nativeProgram({ root, dataDir: config.dataDir, say: warn });
  const roots = trustedRootsOf(config).pems;
  const runtime = runtimeOf({ ...config, poolHot: 0, poolWarm: 0 }, { guest, progress: warn, roots });
  await runtime.open();
  undo.defer(() => runtime.leave());
  const context = contextOf(config, store, runtime, files);
  const parts = undo.move();
  return {
    context,
    pair: pairOf(config, store, files),
    serveCommand: commandLine("serve", config, process.env),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

/** said at the start, not by every create */
async function requireDefaultImage({ defaultImage, dataDir }: Config, runtime: LinuxRuntime): Promise<void> {
  if (await runtime.images.get(defaultImage)) return;
  const how = `sandkeep image import <path> --name ${defaultImage} --data-dir ${dataDir}`;
  const why = `there is no such image (${how} brings one)`;
  throw new SandkeepError("invalid", `Cannot use SANDKEEP_DEFAULT_IMAGE "${defaultImage}": ${why}`);
}

function reserveOf({ dataDir, diskReserve: reserve }: Config): { dataDir: string; reserve?: number } {
  return { dataDir, ...(reserve !== undefined && { reserve }) };
}

/** the key is beside the database, not in it */
function sealOf({ dataDir }: Config): Seal {
  return redacting(openSeal(join(dataDir, "secret.key")));
}

function recoveryFilesOf(config: Config): DirectoryRecoveryFiles {
  return new DirectoryRecoveryFiles(config.dataDir, commandLine("recover", config, process.env));
}

function openStoreOf(config: Config, files: DirectoryRecoveryFiles): Promise<Store> {
  const location = storeLocation(config);
  requireDatabase(config.dataDir, location, files);
  return openStore(location, { exclusive: endOvertaken, seal: sealOf(config).seal, warn });
}

/** another daemon has the database: whatever this one does from now on is wrong; sandboxes go on */
function endOvertaken(error: SandkeepError): void {
  logError(error);
  process.exit(1);
}

function storeLocation({ databaseUrl, dataDir }: Config): StoreLocation {
  return databaseUrl === undefined ? { path: join(dataDir, "sandkeep.db") } : { url: databaseUrl };
}

function pairOf(config: Config, store: Store, files: RecoveryFiles): BoundPair {
  return { store, files, directory: config.dataDir, database: placeOf(storeLocation(config)) };
}

/** What of the runtime's options is found out at the start. */
type HostDetails = Pick<LinuxOptions, "guest" | "progress" | "roots" | "room">;

function runtimeOf(config: Config, found: HostDetails): LinuxRuntime {
  return new LinuxRuntime({
    dataDir: config.dataDir,
    runRoot: config.runDir,
    conventions: conventions.image,
    ...found,
    egress: egressCommand,
    egressSettings: () => ({ ...egressSettingsOf(config), forwardHeaders: conventions.forwardHeaders }),
    pool: { hot: config.poolHot, warm: config.poolWarm },
    defaultImage: config.defaultImage,
    registries: pullerOptions({ ...config, seal: sealOf(config), roots: egressSettingsOf(config).roots, warn }),
    limits: {
      vcpus: config.defaultVcpus,
      memory: config.defaultVcpus * 2 ** 31,
      pids: config.maxProcesses,
      disk: config.maxDisk,
    },
    durability: config.durability,
    ...(config.storeSize !== undefined && { storage: { imageSize: config.storeSize, preallocated: true } }),
    outputLimit: config.maxOutput,
    journalLimit: config.maxOutputTotal,
    ...(config.maxOpenFiles !== undefined && { maxOpenFiles: config.maxOpenFiles }),
    logError,
    warn,
  });
}

function contextOf(config: Config, store: Store, runtime: LinuxRuntime, files: RecoveryFiles): Omit<Context, "events"> {
  return {
    store,
    runtime,
    files,
    eventFiles: new DirectoryLineFiles(join(config.dataDir, "events")),
    sampleFiles: new DirectoryLineFiles(join(config.dataDir, "samples"), Number.POSITIVE_INFINITY),
    bootId: hostBootId(),
    ids: idsFrom(fewRandomBytes),
    now: Date.now,
    steady: () => performance.now(),
    limits: coreLimits(config, regionsOf(config)[0]),
    defaultImage: config.defaultImage,
    imageAliases: config.imageAliases,
    pullPolicy: config.pullPolicy,
    seal: sealOf(config),
    webhookSender: webhookSenderOf(config),
    sandboxEnv: config.sandboxEnv,
    notice: notices(),
    logError,
    about,
    origin,
    diagnose: async () => diagnose(await hostFacts(config)),
    redact,
  };
}

function webhookSenderOf(config: Config): HttpWebhookSender {
  return new HttpWebhookSender({
    allow: config.webhookAllow,
    roots: () => egressSettingsOf(config).roots,
    now: Date.now,
  });
}

/** those that callers may name, the default first */
function regionsOf({ regions: [first, ...others] }: Config): readonly [string, ...string[]] {
  return first === undefined ? conventions.regions : [first, ...others];
}

interface Served {
  core: Core;
  store: Store;
  signingKey: () => SigningKey;
  log: Log;
  tls: TlsIdentity | undefined;
}

async function listen(
  place: Place,
  { core, store, signingKey, log, tls }: Served,
): Promise<{ server: ClosableServer; drain: Drain; url: string; api: Api }> {
  const { config } = place;
  const publicUrl = () => publicUrlOf(place);
  const ownHosts = () => [new URL(publicUrl()).hostname];
  const drain = new Drain();
  const api = createApi({
    core,
    ending: drain.ending,
    idempotency: storedIdempotency(store, Date.now, openSeal(join(config.dataDir, "secret.key"))),
    publicUrl,
    domain: () => domainUrlOf(place),
    jwks: () => signingKey().jwks,
    conformanceFixtures: config.conformanceFixtures,
    allowedHosts: config.allowedHosts,
    dashboard: dashboardFiles,
    closing: () => !server.listening,
    limits: apiLimits(config, regionsOf(config)),
    sign: signerFor("tokens of the API", join(config.dataDir, "secret.key")),
    signOuts: new SignOuts(new DirectoryLineFiles(join(config.dataDir, "browsers")), Date.now()),
    clock: Date.now,
    logError,
    speaks,
  });
  // Who is on this host needs no name server for localhost, whatever the world calls it. The domain itself may be below
  // localhost, too.
  const domain = (host: string) => (isBelow(host, config.domain) ? config.domain : "localhost");
  const ingress = createIngress({ routes: core.routes, domain, ownHosts, ports: api.ports, logError });
  const answer = apiListener(api);
  const isForPort = (request: IncomingMessage) => !api.servesHost(request.headers.host) && ingress.matches(request);
  const level: RequestLog["level"] = config.logRequests ? "info" : "debug";
  const requests: RequestLog = { log, level, now: () => performance.now(), addressOf: clientAddress };
  const listener: RequestListener = (request, response) => {
    if (tls && isPlain(request)) answerPlain(request, response, publicUrl());
    else if (namesTwoHosts(request)) answerTwoHosts(response);
    else if (isForPort(request)) ingress.handle(request, response);
    else if (drain.admit(request, response)) inRequest(requests, request, response, answer);
  };
  const server = createHttpServer({ shouldUpgradeCallback: ingress.shouldUpgrade }, listener);
  server.on("clientError", answerMalformed);
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (tls && isPlain(request)) refusePlain(request, socket, publicUrl());
    else if (namesTwoHosts(request)) answerMalformed(new Error("it names two hosts"), socket);
    else if (isForPort(request)) ingress.upgrade(request, socket, head);
    else inUpgrade(requests, request, () => api.upgrade(request, socket, head));
  });
  // commands and logs stream for as long as they like
  server.requestTimeout = 0;
  server.headersTimeout = 30_000;
  // Longer than clients and proxies keep idle connections: one that they use again must not close at that moment.
  server.keepAliveTimeout = 65_000;
  // Answers name the time above. A client that is late, as on a busy host, still finds the connection open.
  server.keepAliveTimeoutBuffer = 30_000;
  const closable = tls ? renewed(new SecureServer(server, tls, listener), tls, config, warn) : withUpgraded(server);
  await listenOn(server, config);
  place.port = (server.address() as AddressInfo).port;
  return { server: closable, drain, url: listeningUrlOf(place), api };
}

/** for the person who waits for a first start */
function progress(sentence: string): void {
  process.stdout.write(`${sentence} …\n`);
}

function requireRoot(command: string, why: string, args: string[], advice = ""): void {
  if (process.getuid?.() === 0) return;
  const hint = `hint: ${commandAsRoot([command, ...args], process.env)}${advice}`;
  throw new SandkeepError("forbidden", `Cannot ${command}: ${why}\n${hint}`);
}
