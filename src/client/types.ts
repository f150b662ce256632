/**
 * The types of the API's operations, taken from their declarations. Only types are imported, so nothing of the daemon is
 * loaded with the client.
 */

import type { z } from "zod";
import type { Operation } from "../api/sandkeep/frame/operation.ts";
import type { DeclaredOperation } from "../api/sandkeep/sandkeep.ts";

export type OperationId = DeclaredOperation["id"];
type Declared<Id extends OperationId> = Extract<DeclaredOperation, { id: Id }>;

/** the method and path of each operation */
export type Routes = { [O in DeclaredOperation as O["id"]]: `${O["method"]} ${O["path"]}` };

/** the operations that are about the host or a team */
export type BeyondProjects = {
  [O in DeclaredOperation as O["about"] extends "host" | "team" ? O["id"] : never]: O["about"];
};

/** Which team and project a request is about; by default those of the key. */
export interface Scope {
  team?: string | undefined;
  project?: string | undefined;
}

/** What a request says. */
export type Input<Id extends OperationId> =
  Declared<Id> extends Operation<infer S, infer P, infer Q, infer B, z.ZodType, string, infer M, infer Path>
    ? Params<S, P, Path> &
        QueryOf<Q> &
        (B extends z.ZodUndefined
          ? unknown
          : Record<never, never> extends z.input<B>
            ? { body?: z.input<B> }
            : { body: z.input<B> }) & {
          /** a body of another kind than JSON */
          bytes?: M extends "GET" ? never : NonNullable<RequestInit["body"]>;
          headers?: Record<string, string>;
          signal?: AbortSignal;
        }
    : never;

/** the values in the path; instead of a session, an operation may name the sandbox whose current session it is about */
type Params<S, P, Path> = keyof P extends never
  ? unknown
  : S extends "session"
    ? Path extends `/sessions/{session}/${string}`
      ? { params: Texts<P> | ({ sandbox: string } & Texts<Omit<P, "session">>) }
      : { params: Texts<P> }
    : { params: Texts<P> };
type Texts<P> = { [K in keyof P]: string };

/** parameters as numbers and booleans where they mean such; those with a default may be left out */
type QueryOf<Q extends z.core.$ZodLooseShape> = keyof Q extends never
  ? { query?: Scope }
  : Values<Q> extends infer V
    ? Record<never, never> extends V
      ? { query?: V & Scope }
      : { query: V & Scope }
    : never;
type Values<Q extends z.core.$ZodLooseShape> = {
  [K in keyof z.input<z.ZodObject<Q>>]: K extends keyof z.output<z.ZodObject<Q>>
    ? z.output<z.ZodObject<Q>>[K] | (undefined extends z.input<z.ZodObject<Q>>[K] ? undefined : never)
    : never;
};

/** the JSON of a success */
export type Output<Id extends OperationId> =
  Declared<Id> extends Operation<infer _S, infer _P, infer _Q, infer _B, infer A> ? z.output<A> : never;

/** a line of a stream */
export type Line<Id extends OperationId> =
  Declared<Id> extends Operation<
    infer _S,
    infer _P,
    infer _Q,
    infer _B,
    infer _A,
    string,
    infer _M,
    infer _Path,
    infer O
  >
    ? O extends Record<"application/x-ndjson", infer L extends z.ZodType>
      ? z.output<L>
      : never
    : never;
