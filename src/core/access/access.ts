/** Who may do what: keys belong to teams, teams own projects, and callers find only what their team owns. */

import { remembered } from "../../base/remembered.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller, Owner, Project, Team } from "../model/sandbox.ts";
import { requireAdmin, requireProject, requireUnlimited } from "../model/scope.ts";
import type { NetworkPolicy } from "../network/network-policy.ts";
import type { ApiKey } from "../ports/store.ts";
import { KeyLifetimes } from "./key-lifetimes.ts";
import { DeviceLogins } from "./login.ts";
import { WrongKeys } from "./wrong-keys.ts";

/** How a new key is more limited than its team, and when it expires. */
export interface KeyLimits {
  project?: string | undefined;
  readOnly?: boolean | undefined;
  policyCeiling?: NetworkPolicy | undefined;
  expiresAt?: number | undefined;
  /** whether it may act for every team; only another such key may create one, and it has no other limits */
  admin?: boolean | undefined;
}

interface KnownKey {
  key: ApiKey;
  caller: Caller;
  /** when its last use was stored */
  touchedAt: number;
  /** addresses that have used it */
  from: Set<string>;
}

export interface AccessOptions {
  /** SHA-256 in hex */
  hash: (text: string) => string;
  /** the key inside a token that carries one; undefined for anything else */
  keyOfToken?: (token: string) => string | undefined;
}

export const defaultTeam = { id: "team_default", slug: "default" };
export const defaultProject = { id: "prj_default", name: "default" };

const mostCallers = 1000;
/** characters of a token whose hash is remembered */
const longestRemembered = 1024;
/** most addresses remembered for each key */
const mostAddresses = 1000;
/** ms between two records of a key's last use */
const touchEvery = 60_000;
const mostProjects = 1000;

export class Access {
  readonly #context: Context;
  readonly #hash: (text: string) => string;
  /** the hash of the key that a request carries; the latest are remembered, as most requests carry the same */
  readonly #hashIn: (secret: string) => string;
  readonly logins: DeviceLogins;
  readonly #wrongKeys: WrongKeys;
  readonly #lifetimes: KeyLifetimes;
  /** keys in use, by hash; only this daemon uses the store, so no other process deletes keys */
  readonly #callers = new Map<string, KnownKey>();
  /** the same keys, by id */
  readonly #byId = new Map<string, KnownKey>();
  /** known projects, by team and by the id or name asked for: a project goes away only with its team */
  readonly #projects = new Map<string, Project>();

  constructor(context: Context, options: AccessOptions) {
    this.#context = context;
    this.#hash = options.hash;
    const { hash, keyOfToken = () => undefined } = options;
    this.#hashIn = remembered((secret) => hash(keyOfToken(secret) ?? secret), longestRemembered);
    this.logins = new DeviceLogins(context);
    this.#wrongKeys = new WrongKeys(context.now);
    this.#lifetimes = new KeyLifetimes(context.now);
  }

  /** creates the first team, project and key; returns the secret of a key that it created */
  async prepare(preset: string | undefined): Promise<string | undefined> {
    const { store, ids, now } = this.#context;
    await store.insertTeam({ ...defaultTeam, createdAt: now() });
    if (!(await store.findProject(defaultTeam.id, defaultProject.id))) {
      const { uuid } = ids.project();
      await store.insertProject({ ...defaultProject, uuid, teamId: defaultTeam.id, createdAt: now() });
    }
    if (preset !== undefined) {
      const limits = { admin: true };
      if (!(await store.findKey(this.#hash(preset)))) await this.#insertKey(defaultTeam.id, "preset", preset, limits);
      return undefined;
    }
    if ((await store.listKeys(defaultTeam.id)).length > 0) return undefined;
    return (await this.createKey({ teamId: defaultTeam.id, admin: true }, "first", { admin: true })).secret;
  }

  /** `secret` is a key, or a token that carries one; `address`, the client's, may not try many wrong keys */
  async authenticate(secret: string, address = ""): Promise<Caller> {
    // the lookup is by hash, so its duration reveals nothing about other keys
    const hash = this.#hashIn(secret);
    const seen = this.#callers.get(hash);
    if (!seen?.from.has(address)) this.#wrongKeys.check(address, hash);
    const known = seen ?? (await this.#find(hash, address));
    if (known.from.size >= mostAddresses) known.from.clear();
    known.from.add(address);
    const { key, caller } = known;
    this.#requireAlive(key);
    const at = this.#context.now();
    if (at - known.touchedAt >= touchEvery) {
      known.touchedAt = at;
      // Not awaited: the time of last use only informs people.
      void this.#context.store.touchKey(key.id, at).catch(this.#context.logError);
    }
    return caller;
  }

  /** the caller of a token that was made with a key; throws `unauthenticated` once the key is deleted */
  async callerOf(teamId: string, keyId: string): Promise<Caller> {
    const known = this.#byId.get(keyId) ?? (await this.#known(teamId, keyId));
    if (known?.key.teamId !== teamId)
      throw new SandkeepError("unauthenticated", "Cannot authenticate: the key is gone");
    this.#requireAlive(known.key);
    return known.caller;
  }

  /** the key of a caller that has just authenticated */
  keyOf({ keyId = "" }: Caller): Pick<ApiKey, "id" | "name"> | undefined {
    const { id, name } = this.#byId.get(keyId)?.key ?? {};
    return id === undefined || name === undefined ? undefined : { id, name };
  }

  /** the caller that signs in to the dashboard; throws `unauthenticated` if its key is gone since it got a link */
  async signIn({ teamId, keyId = "" }: Caller): Promise<Caller> {
    return this.callerOf(teamId, keyId);
  }

  /** the caller of a link that will sign in once */
  async linkToSignIn({ teamId, keyId = "" }: Caller): Promise<Caller> {
    return this.callerOf(teamId, keyId);
  }

  async #known(teamId: string, keyId: string): Promise<KnownKey | undefined> {
    const key = (await this.#context.store.listKeys(teamId)).find(({ id }) => id === keyId);
    return key && this.#remember(key);
  }

  async #find(hash: string, address: string): Promise<KnownKey> {
    const key = await this.#context.store.findKey(hash);
    if (!key) {
      this.#wrongKeys.add(address, hash);
      throw new SandkeepError("unauthenticated", "Cannot authenticate: no team has this key");
    }
    return this.#remember(key);
  }

  #remember(key: ApiKey): KnownKey {
    const caller = { ...callerWith(key), ended: this.#lifetimes.of(key) };
    const known = { key, caller, touchedAt: key.lastUsedAt ?? 0, from: new Set<string>() };
    if (this.#callers.size >= mostCallers) this.#forgetAll();
    this.#callers.set(key.hash, known);
    this.#byId.set(key.id, known);
    return known;
  }

  #forgetAll(): void {
    this.#callers.clear();
    this.#byId.clear();
  }

  #requireAlive({ expiresAt }: ApiKey): void {
    if (expiresAt === undefined || expiresAt > this.#context.now()) return;
    throw new SandkeepError("unauthenticated", "Cannot authenticate: the key has expired");
  }

  /** the project of a request; without a project or team, the key's own */
  async owner(caller: Caller, scope: { team?: string | undefined; project?: string | undefined }): Promise<Owner> {
    await this.#ownTeam(caller, scope.team);
    const project = await this.#findProject(caller, scope.project ?? caller.scope?.projectId);
    return { ...caller, projectId: project.id };
  }

  /** the caller for its own team, or an admin key's for the team that it names */
  async actingFor(caller: Caller, idOrSlug: string | undefined): Promise<Caller> {
    if (idOrSlug === undefined || idOrSlug === caller.teamId) return caller;
    if (!caller.admin) {
      await this.#ownTeam(caller, idOrSlug);
      return caller;
    }
    const team = await this.#context.store.findTeam(idOrSlug);
    if (!team) throw new SandkeepError("not-found", `There is no team "${idOrSlug}"`);
    return { ...caller, teamId: team.id };
  }

  /** the teams that the caller may act for: its own, or with an admin key all */
  async visibleTeams(caller: Caller): Promise<Team[]> {
    return caller.admin ? this.#context.store.listTeams() : this.teams(caller);
  }

  /** a new team with a first project; throws `exists` if another team has the slug */
  async createTeam(caller: Caller, slug: string): Promise<Team> {
    requireAdmin(caller, "a new team");
    const { store, ids, now } = this.#context;
    if (await store.findTeam(slug)) throw new SandkeepError("exists", `There is a team "${slug}" already`);
    const team: Team = { id: ids.team(), slug, createdAt: now() };
    await store.insertTeam(team);
    const project = { ...ids.project(), teamId: team.id, name: defaultProject.name, createdAt: now() };
    await store.insertProject(project);
    return team;
  }

  /** call when the team of these keys was deleted */
  forgetTeam(keys: readonly string[]): void {
    this.#forgetAll();
    this.#projects.clear();
    for (const id of keys) this.#lifetimes.end(id);
  }

  async projects(caller: Caller): Promise<Project[]> {
    const projects = await this.#context.store.listProjects(caller.teamId);
    const only = caller.scope?.projectId;
    return only === undefined ? projects : projects.filter(({ id }) => id === only);
  }

  async team(caller: Caller, idOrSlug?: string): Promise<Team> {
    await this.#ownTeam(caller, idOrSlug);
    const team = await this.#context.store.findTeam(caller.teamId);
    if (!team) throw new SandkeepError("not-found", `There is no team "${caller.teamId}"`);
    return team;
  }

  async teams(caller: Caller): Promise<Team[]> {
    return [await this.team(caller)];
  }

  async project(caller: Caller, team: string | undefined, idOrName: string): Promise<Project> {
    await this.#ownTeam(caller, team);
    return this.#findProject(caller, idOrName);
  }

  async createProject(caller: Caller, team: string | undefined, name: string): Promise<Project> {
    await this.#ownTeam(caller, team);
    requireUnlimited(caller, "a new project");
    const { store, ids, now } = this.#context;
    const project: Project = { ...ids.project(), teamId: caller.teamId, name, createdAt: now() };
    await store.insertProject(project);
    return project;
  }

  async keys(caller: Caller): Promise<Omit<ApiKey, "hash">[]> {
    requireUnlimited(caller, "the list of keys");
    const keys = await this.#context.store.listKeys(caller.teamId);
    return keys.map(({ hash: _, ...key }) => key);
  }

  /** returns the secret, which is not stored; `project` is an id or a name */
  async createKey(
    caller: Caller,
    name: string,
    { project, readOnly, policyCeiling, expiresAt, admin = false }: KeyLimits = {},
  ): Promise<{ key: Omit<ApiKey, "hash">; secret: string }> {
    requireUnlimited(caller, "a new key");
    if (admin) requireAdmin(caller, "another admin key");
    if (admin && (project !== undefined || readOnly || policyCeiling !== undefined)) {
      throw new SandkeepError("invalid", "Cannot create an admin key with other limits than the time that it expires");
    }
    if (expiresAt !== undefined && expiresAt <= this.#context.now()) {
      throw new SandkeepError("invalid", "Cannot create a key that has expired already");
    }
    const projectId = project === undefined ? undefined : (await this.#findProject(caller, project)).id;
    const { secret } = this.#context.ids.apiKey();
    const limits = {
      ...(projectId !== undefined && { projectId }),
      ...(readOnly && { readOnly }),
      ...(policyCeiling !== undefined && { policyCeiling }),
      ...(expiresAt !== undefined && { expiresAt }),
      ...(admin && { admin }),
    };
    return { key: await this.#insertKey(caller.teamId, name, secret, limits), secret };
  }

  async renameKey(caller: Caller, id: string, name: string): Promise<Omit<ApiKey, "hash">> {
    requireUnlimited(caller, "changing a key");
    await this.#requireOver(caller, id);
    const renamed = await this.#context.store.renameKey(caller.teamId, id, name);
    if (!renamed) throw new SandkeepError("not-found", `Cannot rename key "${id}": there is no such key`);
    this.#forgetAll();
    const { hash: _, ...key } = renamed;
    return key;
  }

  async deleteKey(caller: Caller, id: string): Promise<void> {
    requireUnlimited(caller, "deleting a key");
    await this.#requireOver(caller, id);
    const deleted = await this.#context.store.deleteKey(caller.teamId, id);
    this.#forgetAll();
    if (deleted) return this.#lifetimes.end(id);
    throw new SandkeepError("not-found", `Cannot delete key "${id}": there is no such key`);
  }

  /** refuses a caller that could take the operator's key away */
  async #requireOver(caller: Caller, id: string): Promise<void> {
    if (caller.admin) return;
    const keys = await this.#context.store.listKeys(caller.teamId);
    if (keys.some((key) => key.id === id && key.admin)) requireAdmin(caller, "changing or deleting an admin key");
  }

  async #insertKey(
    teamId: string,
    name: string,
    secret: string,
    limits: Partial<ApiKey> = {},
  ): Promise<Omit<ApiKey, "hash">> {
    const { ids, now, store } = this.#context;
    const key = { id: ids.apiKey().id, teamId, name, hint: secret.slice(-4), createdAt: now(), ...limits };
    await store.insertKey({ ...key, hash: this.#hash(secret) });
    return key;
  }

  /** refuses a team that is not the caller's own */
  async #ownTeam(caller: Caller, idOrSlug: string | undefined): Promise<void> {
    if (idOrSlug === undefined || idOrSlug === caller.teamId) return;
    const team = await this.#context.store.findTeam(idOrSlug);
    if (team?.id !== caller.teamId) {
      throw new SandkeepError("forbidden", `Not authorized: this key is not one of team "${idOrSlug}"`);
    }
  }

  async #findProject(caller: Caller, idOrName: string | undefined): Promise<Project> {
    const project = await this.#projectOf(caller, idOrName);
    requireProject(caller, project.id);
    return project;
  }

  async #projectOf(caller: Caller, idOrName: string | undefined): Promise<Project> {
    const { store } = this.#context;
    const asked = `${caller.teamId} ${idOrName ?? ""}`;
    const known = this.#projects.get(asked);
    if (known) return known;
    const [first] = idOrName === undefined ? await store.listProjects(caller.teamId) : [];
    const project = idOrName === undefined ? first : await store.findProject(caller.teamId, idOrName);
    if (project) {
      if (this.#projects.size >= mostProjects) this.#projects.clear();
      this.#projects.set(asked, project);
      return project;
    }
    if (idOrName !== undefined && (await store.findAnyProject(idOrName))) {
      throw new SandkeepError("forbidden", `Not authorized: project "${idOrName}" belongs to another team`);
    }
    throw new SandkeepError("not-found", `Project not found: "${idOrName ?? "default"}"`);
  }
}

function callerWith({ id, teamId, projectId, readOnly, policyCeiling, admin }: ApiKey): Caller {
  const limited = projectId !== undefined || readOnly || policyCeiling !== undefined;
  const scope = { projectId, readOnly, ...(policyCeiling && { ceilings: [policyCeiling] }) };
  return { teamId, keyId: id, ...(limited && { scope }), ...(admin && { admin }) };
}
