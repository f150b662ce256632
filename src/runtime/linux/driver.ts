/**
 * The Linux runtime: opens the store, the launcher and the ledger, boots machines from images and snapshots, and finds
 * them again after the daemon died. plan.ts decides, launcher.ts asks the launcher, this file keeps the order.
 */

import { rmSync } from "node:fs";
import { makeFolderSync } from "../../base/files/folders.ts";
import { messageOf, SandkeepError } from "../../core/model/errors.ts";
import type {
  Discrepancy,
  EgressJournal,
  ExitStatus,
  Limits,
  Machine,
  MachineEnd,
  MachineNetwork,
  MachineSetup,
  MachineSpec,
  OutputChunk,
  OutputOptions,
  Runtime,
  SnapshotInfo,
} from "../../core/ports/runtime.ts";
import type { Vitals } from "../../core/ports/vitals.ts";
import type { MachineRecord } from "../../protocols/machine-record.ts";
import type { CommandInfo } from "../../protocols/output-journal.ts";
import { LinuxImageBuilds } from "./builds/image-builds.ts";
import { type Components, type Durability, openComponents } from "./components.ts";
import { explaining, isFull, isWorthAnotherBoot, ofClosedStore, ofTwoBoots, typed } from "./guest-wire/failure.ts";
import { hostBootId } from "./host/boot-id.ts";
import type { Builds } from "./host/builds.ts";
import { removeCgroup } from "./host/cgroup.ts";
import type { LogError } from "./host/launcher-log.ts";
import { difference } from "./host/ledger.ts";
import { lasting, realResources } from "./host/reconcile.ts";
import { ensureHostImage } from "./images/host.ts";
import { hostImage, type ImageStore, imageReference } from "./images/images.ts";
import type { LayerStore } from "./layers/layers.ts";
import type { SnapshotStore } from "./layers/snapshots.ts";
import { adopt, finish } from "./machines/adopt.ts";
import { bootedMachine } from "./machines/booted-machine.ts";
import { readEnded, readInfo } from "./machines/journal.ts";
import { LinuxMachine } from "./machines/machine.ts";
import { MachineRegistry } from "./machines/machine-registry.ts";
import { checkSpec, isPlainName, type MachinePlan, type Places, places } from "./machines/plan.ts";
import type { PreparedMachine } from "./machines/prepared-machine.ts";
import { flushRecord, writeRecord, writeSpare } from "./machines/record-files.ts";
import { bootRoot } from "./machines/roots.ts";
import { egressJournal } from "./network/egress-journal.ts";
import { abandoned, isIdle, letGo, rebuildLedger, shutDown } from "./opening.ts";
import { defaultLimits, type LinuxOptions } from "./options.ts";
import type { DriveStore } from "./storage/drives.ts";
import { tellOfDamage } from "./storage/kept-record.ts";
import { closeStorage, reclaim, type Storage } from "./storage/storage.ts";
import { lossOf, storeError } from "./storage/store-error.ts";
import { openWritable, StoreWatch } from "./storage/store-rescue.ts";
import { vitalsOf } from "./vitals.ts";

export type { LinuxOptions };

export class LinuxRuntime implements Runtime {
  readonly #options: LinuxOptions;
  readonly #places: Places;
  readonly #limits: Limits;
  readonly #bootId: string;
  readonly #registry = new MachineRegistry();
  readonly #booting = new Set<string>();
  #damaged = 0;
  #setAside: MachinePlan[] = [];
  readonly damaged = (): number => this.#damaged;
  #tellLoss = (): void => undefined;
  #components: Components | undefined;
  /** whether leftovers are being undone: a machine that boots meanwhile has no record yet, and would be one */
  #isAdopting = false;
  #hasMounted = false;
  #storeWatch: StoreWatch | undefined;
  readonly #logError: LogError;

  constructor(options: LinuxOptions) {
    this.#options = options;
    this.#logError = options.logError ?? ((error) => console.error(`sandkeep: ${messageOf(error)}`));
    tellOfDamage((sentence) => this.#logError(new Error(sentence)));
    this.#places = places(options.dataDir, options.runRoot ?? "/run/sandkeep");
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#bootId = options.bootId ?? hostBootId();
  }

  get #durability(): Durability {
    return this.#options.durability ?? "power";
  }

  onLoss(listener: () => void): void {
    this.#tellLoss = listener;
  }

  requireRoom(): void {
    this.#options.room?.require("start a sandbox");
  }

  get #defaultImage(): string {
    return this.#options.defaultImage ?? hostImage;
  }

  /** a failed open leaves nothing open, and nothing new on the host */
  async open(): Promise<void> {
    try {
      await this.#openAll();
      this.#storeWatch = new StoreWatch({
        needsRescue: () => (this.#components?.health.hasFailed ?? true) && !this.#options.room?.isShort,
        rescue: () => this.#rescue(),
        logError: this.#logError,
      });
    } catch (error) {
      const [close, shutdown] = [() => this.close(), () => this.shutdown()];
      const [places, components, hasMounted] = [this.#places, this.#components, this.#hasMounted];
      throw await abandoned({ dataDir: this.#options.dataDir, places, components, hasMounted, close, shutdown }, error);
    }
  }

  async #openAll({ hasLost = false } = {}): Promise<void> {
    const { dataDir, guest, room, conventions, roots = [], progress = () => undefined } = this.#options;
    makeFolderSync(dataDir, 0o700);
    const options = { dataDir, progress, ...(room && { reserve: room.reserve }), ...this.#options.storage };
    const storage = await openWritable({ storage: options, places: this.#places, guest, room, hasLost });
    this.#hasMounted = storage.isNewlyMounted;
    const { machines, spares, sockets } = this.#places;
    for (const folder of [machines, spares, sockets]) makeFolderSync(folder, 0o700);
    const components = await this.#openComponents({ ...storage, isNewlyMounted: storage.isNewlyMounted || hasLost });
    this.#isAdopting = true;
    this.#components = components;
    try {
      if (components.ledger.isDamaged)
        this.#logError(new Error(await rebuildLedger(components, this.#places, dataDir)));
      await this.#adopt(components, { isNewlyMounted: storage.isNewlyMounted || hasLost });
    } finally {
      this.#isAdopting = false;
    }
    await components.builds.open();
    if (this.#defaultImage === hostImage)
      await ensureHostImage(components.layers, components.images, { conventions, roots, progress });
    await components.egress.configured();
    await components.growthStop?.apply();
    if (!room?.isShort) components.pool.fill(0);
  }

  /** machines go on; prepared machines do not */
  async close(): Promise<void> {
    this.#storeWatch?.close();
    await this.#letGo();
  }

  async #letGo(): Promise<void> {
    if (this.#components) await letGo(this.#components);
    this.#components = undefined;
  }

  /** for the daemon's end: machines keep running; without machines nothing stays behind */
  async leave(): Promise<void> {
    await this.#components?.pool.close();
    const isUnused = this.#components && (await isIdle(this.#components, this.#places).catch(() => false));
    await (isUnused ? this.shutdown() : this.close());
  }

  /** stops every machine, ends the launcher and unmounts the store; what is stored stays */
  async shutdown(): Promise<void> {
    const { pool, launcher, layers, snapshots, cgroupParents } = this.#open();
    await shutDown([
      () => pool.close(),
      ...[...this.#registry.live.values()].map((machine) => () => machine.stop()),
      // Their files stay.
      ...this.#setAside.map((plan) => () => finish(this.#open(), plan)),
      // this asks the launcher for the sizes of snapshots
      () => snapshots.close(),
      () => layers.close(),
      () => launcher.shutdown(),
      () => this.close(),
      () => closeStorage(this.#options.dataDir),
      () => removeCgroup(cgroupParents),
      () => rmSync(this.#places.run, { recursive: true, force: true }),
    ]);
  }

  /** resolves when the pool is full */
  async ready(): Promise<void> {
    await this.#open().pool.full();
  }

  /** searches again for files of the host that its other users may not read: machines that boot afterwards do not see them */
  async searchHost(): Promise<void> {
    await this.#open().masks.search();
  }

  /** resolves when everything that machines have written is on the disk */
  async sync(): Promise<void> {
    await this.#open().layers.sync();
  }

  /** pid of a machine's first process as the host sees it */
  firstProcess(machineId: string): number {
    const machine = this.#registry.live.get(machineId);
    if (!machine) throw new SandkeepError("not-found", `There is no machine "${machineId}"`);
    return machine.record.pid;
  }

  get snapshots(): SnapshotStore {
    const components = this.#open();
    const explain = (error: unknown) => storeError(components, typed(error, "Cannot use snapshots"), "use snapshots");
    return explaining(components.snapshots, explain);
  }

  get images(): ImageStore {
    return this.#open().images;
  }

  get builds(): Builds {
    return this.#open().builds;
  }

  get imageBuilds(): LinuxImageBuilds {
    return new LinuxImageBuilds({ ...this.#options, ...this.#open(), store: this.#places.store });
  }

  vitals(): Vitals {
    return vitalsOf(this.#open(), this.#options.room);
  }

  get drives(): DriveStore {
    const components = this.#open();
    const explain = (error: unknown) => storeError(components, typed(error, "Cannot use drives"), "use drives");
    return explaining(components.drives, explain);
  }

  get layers(): LayerStore {
    return this.#open().layers;
  }

  async boot(wanted: MachineSpec): Promise<Machine> {
    const components = this.#open();
    if (this.#isAdopting) throw ofClosedStore(undefined, this.#options.room?.shortage());
    this.requireRoom();
    const spec = checkSpec(wanted, this.#limits);
    if (this.#registry.live.has(spec.id) || this.#registry.ended.has(spec.id) || this.#booting.has(spec.id)) {
      throw new SandkeepError("exists", `Cannot boot machine "${spec.id}": its id was used before`);
    }
    this.#booting.add(spec.id);
    const done = components.pool.begin();
    const network = wanted.network ?? "allow-all";
    try {
      // What is started on a store that has lost something would end with all the others.
      await components.health.requireWhole();
      return await this.#boot(spec, network, wanted.setup).catch(async (error) => {
        if (isFull(error)) await reclaim(this.#places.store);
        else if (!isWorthAnotherBoot(error)) throw error;
        return this.#boot(spec, network, wanted.setup);
      });
    } catch (error) {
      const refused = storeError(components, typed(error, `Cannot boot machine "${spec.id}"`), "start a sandbox");
      throw ofTwoBoots(refused, this.#options.room?.shortage());
    } finally {
      this.#booting.delete(spec.id);
      done();
    }
  }

  machines(): Machine[] {
    return [...this.#registry.live.values()];
  }

  machine(id: string): Machine | undefined {
    return this.#registry.live.get(id);
  }

  async salvage(machineId: string): Promise<SnapshotInfo | undefined> {
    const components = this.#open();
    const ended = this.#registry.ended.get(machineId);
    if (!ended) return undefined;
    return components.capturer.salvage(ended.plan, ended.record).catch((error) => {
      throw storeError(components, typed(error, `Cannot keep the files of machine "${machineId}"`), "keep its files");
    });
  }

  ends(): MachineEnd[] {
    return [...this.#registry.ended.values()].flatMap(({ record }) => record.ended ?? []);
  }

  end(machineId: string): MachineEnd | undefined {
    return this.#registry.ended.get(machineId)?.record.ended;
  }

  command(machineId: string, commandId: string): { exit?: ExitStatus } | undefined {
    const plan = this.#registry.planOf(machineId);
    return plan && this.#info(plan.journal, commandId);
  }

  async forget(machineId: string): Promise<void> {
    const components = this.#open();
    const { volumes, ledger, ports } = components;
    if (this.#registry.live.has(machineId)) {
      throw new SandkeepError("conflict", `Cannot forget machine "${machineId}": it is running`);
    }
    const ended = this.#registry.ended.get(machineId);
    if (!ended) return;
    await ports.forget(ended.plan.folder);
    await volumes.deleteFolder(ended.plan).catch((error) => {
      throw storeError(components, typed(error, `Cannot forget machine "${machineId}"`), "delete files");
    });
    ledger.gone([{ kind: "directory", name: ended.plan.folder }]);
    this.#registry.ended.delete(machineId);
  }

  output(machineId: string, commandId: string, options: OutputOptions = {}): AsyncIterable<OutputChunk> {
    const process = this.#registry.live.get(machineId)?.process(commandId);
    if (process) return process.output(options);
    const journal = this.#registry.ended.get(machineId)?.plan.journal;
    const info = journal === undefined ? undefined : this.#info(journal, commandId);
    if (journal === undefined || !info) {
      throw new SandkeepError("not-found", `Cannot read output: machine "${machineId}" has no command "${commandId}"`);
    }
    return readEnded(journal, commandId, info, options.from);
  }

  #info(journal: string, commandId: string): CommandInfo | undefined {
    try {
      return isPlainName(commandId) ? readInfo(journal, commandId) : undefined;
    } catch (error) {
      throw storeError(this.#open(), typed(error, `Cannot read command "${commandId}"`), "read a command's output");
    }
  }

  egress(machineId: string): EgressJournal | undefined {
    const { egress, ports } = this.#open();
    const plan = this.#registry.planOf(machineId);
    const ended = () => !this.#registry.live.has(machineId);
    if (!plan) return undefined;
    const { folder, egressLog, name } = plan;
    const flushes = { flush: () => egress.flush(name), flushPorts: () => ports.flush(folder) };
    return egressJournal({ folder: egressLog, portsFolder: folder, ...flushes, ended });
  }

  async reconcile(): Promise<Discrepancy[]> {
    const { launcher, ledger, cgroupParents } = this.#open();
    return lasting(async () => {
      const launched = await launcher.machines();
      const real = realResources({ places: this.#places, cgroupParents, launched, launcherPid: launcher.pid });
      return difference(ledger.outstanding(), real);
    });
  }

  /** ends all machines, whose file system has failed, and mounts the store again */
  async #rescue(): Promise<void> {
    const { live } = this.#registry;
    const reason = lossOf(this.#places.store);
    const sessions = live.size === 0 ? "" : `, which are those of the sessions ${[...live.keys()].join(", ")}`;
    this.#logError(new Error(`${reason}: ending its machines${sessions}, and mounting it again; their files are kept`));
    await shutDown([
      () => Promise.all([...live.values()].map((machine) => machine.lose(reason))),
      () => this.#letGo(),
    ]).catch(this.#logError);
    this.#components = undefined;
    live.clear();
    await this.#openAll({ hasLost: true });
    this.#tellLoss();
  }

  #openComponents(storage: Storage): Promise<Components> {
    return openComponents({
      ...this.#options,
      machines: this.#registry,
      defaultImage: this.#defaultImage,
      limits: this.#limits,
      durability: this.#durability,
      bootId: this.#bootId,
      pool: this.#options.pool ?? { hot: 0, warm: 0 },
      logError: this.#logError,
      warn: this.#options.warn ?? ((sentence, about) => this.#logError(new Error(sentence), about)),
      places: this.#places,
      hasVolumes: storage.volumes,
      isOwnStore: storage.isOwn,
      isNewlyMounted: storage.isNewlyMounted,
    });
  }

  async #adopt(components: Components, { isNewlyMounted }: { isNewlyMounted: boolean }): Promise<void> {
    const { live, ended, damaged, setAside } = await adopt({
      isNewlyMounted,
      places: this.#places,
      bootId: this.#bootId,
      components,
    });
    for (const machine of live) this.#registry.live.set(machine.id, machine);
    for (const entry of ended) this.#registry.ended.set(entry.record.id, entry);
    components.maker.use(live.map(({ plan, record }) => ({ plan, pid: record.pid })));
    components.egress.keep(live.map(({ plan }) => plan.name));
    this.#damaged = damaged;
    this.#setAside = setAside;
  }

  async #boot(spec: Machine["spec"], network: MachineNetwork, setup?: MachineSetup): Promise<Machine> {
    const components = this.#open();
    const { maker, layers, egress } = components;
    const claim = layers.hold();
    let prepared: PreparedMachine | undefined;
    try {
      const root = await bootRoot(this.#open(), spec.root, claim.add);
      prepared = await bootedMachine(this.#open(), spec, { ...root, setup }, this.#limits);
      // No program of the user runs in it yet, so these steps and the records can be made at the same time.
      const fitted = Promise.all([
        typeof network === "string" ? undefined : egress.set(prepared.plan.name, network, { fresh: true }),
        this.#open().maker.fit(prepared, spec),
      ]);
      const record: MachineRecord = {
        id: spec.id,
        name: prepared.plan.name,
        spec,
        pid: prepared.pid,
        bootId: this.#bootId,
        base: prepared.plan.base,
        bootedAt: Date.now(),
        image: { reference: imageReference(root.image), layers: root.image.layers, env: root.image.env },
        volume: root.volume,
      };
      try {
        writeRecord(prepared.plan.folder, record);
        writeSpare(prepared.plan, record);
      } finally {
        await fitted;
      }
      // Not awaited: the caller's own record takes as long to get to the disk.
      if (this.#durability === "power") void flushRecord(prepared.plan.folder);
      const machine = new LinuxMachine(components, prepared.plan, record, prepared.agent);
      this.#registry.live.set(spec.id, machine);
      return machine;
    } catch (error) {
      prepared?.agent?.close();
      if (prepared) egress.drop(prepared.plan.name);
      if (prepared) await maker.abandon(prepared.plan);
      throw error;
    } finally {
      await claim.release();
    }
  }

  #open(): Components {
    if (!this.#components) throw ofClosedStore(undefined, this.#options.room?.shortage());
    return this.#components;
  }
}
