/** Secrets of a team, by name. Values are sealed before they are stored, and are never part of an answer. */

import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller } from "../model/sandbox.ts";
import type { Secret } from "../model/secret.ts";
import type { Page, PageQuery } from "../ports/store.ts";

/** A secret without its value. */
export type SecretInfo = Omit<Secret, "value">;

export interface SecretSpec {
  value: string;
  metadata?: Record<string, string> | undefined;
}

/** most secrets of a team */
const most = 1000;

export class Secrets {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  async create({ teamId }: Caller, name: string, { value, metadata = {} }: SecretSpec): Promise<SecretInfo> {
    const { store, ids, now, seal, redact } = this.#context;
    redact?.(value);
    if ((await store.countSecrets(teamId)) >= most) {
      throw new SandkeepError("limit", `Cannot create the secret: the team has ${most} of them, and no more may be`);
    }
    const at = now();
    const secret = { id: ids.secret(), teamId, name, version: 1, metadata, createdAt: at, updatedAt: at };
    await store.insertSecret({ ...secret, value: seal.seal(value) });
    return secret;
  }

  async get({ teamId }: Caller, idOrName: string): Promise<SecretInfo> {
    return shown(await this.#find(teamId, idOrName));
  }

  /** replaces the value; metadata stay if none are given */
  async update({ teamId }: Caller, idOrName: string, { value, metadata }: SecretSpec): Promise<SecretInfo> {
    const { store, now, seal, redact } = this.#context;
    redact?.(value);
    const { id } = await this.#find(teamId, idOrName);
    const changes = { value: seal.seal(value), updatedAt: now(), ...(metadata && { metadata }) };
    const updated = await store.updateSecret(id, changes);
    if (!updated) throw notThere(idOrName);
    return shown(updated);
  }

  async delete({ teamId }: Caller, idOrName: string): Promise<void> {
    const { id } = await this.#find(teamId, idOrName);
    if (!(await this.#context.store.deleteSecret(id))) throw notThere(idOrName);
  }

  async list({ teamId }: Caller, query: PageQuery): Promise<Page<SecretInfo>> {
    const { items, ...page } = await this.#context.store.listSecrets({ ...query, teamId });
    return { ...page, items: items.map(shown) };
  }

  /** the text with the values of the secrets that it names; throws `not-found` if one of them is missing */
  async filled({ teamId }: Caller, text: string, placeholder: RegExp): Promise<string> {
    const { seal, redact } = this.#context;
    const values = new Map<string, string>();
    for (const [, name = ""] of text.matchAll(placeholder)) {
      const value = seal.open((await this.#find(teamId, name)).value);
      redact?.(value);
      values.set(name, value);
    }
    return text.replace(placeholder, (_, name: string) => values.get(name) ?? "");
  }

  async #find(teamId: string, idOrName: string): Promise<Secret> {
    const secret = await this.#context.store.findSecret(teamId, idOrName);
    if (!secret) throw notThere(idOrName);
    return secret;
  }
}

function shown({ value: _, ...info }: Secret): SecretInfo {
  return info;
}

function notThere(name: string): SandkeepError {
  return new SandkeepError("not-found", `Secret "${name.slice(0, 128)}" not found`);
}
