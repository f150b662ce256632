/**
 * The declaration of an operation. From it come the operation's routes, the checks of its input, the permission that it
 * needs and its part of the OpenAPI document, so that these always agree.
 */

import { z } from "zod";
import type { Caller, Owner } from "../../../core/model/sandbox.ts";
import type { Connection } from "../../kit/http.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
type Shape = z.core.$ZodLooseShape;

/**
 * What an operation is about, which decides what its handler gets:
 *
 *   host      the whole daemon
 *   team      the caller's team, or for an admin key the one in the query
 *   project   a project of that team, named by the query
 *   session   a session by its id, or the current session of a sandbox: its path begins with /sessions/{session}/ and
 *             is also served with /sandboxes/{sandbox}/ instead
 */
export type Subject = "host" | "team" | "project" | "session";

export interface Operation<
  S extends Subject = Subject,
  P extends Shape = Shape,
  Q extends Shape = Shape,
  B extends z.ZodType = z.ZodType,
  A extends z.ZodType = z.ZodType,
  Id extends string = string,
  M extends Method = Method,
  Path extends `/${string}` = `/${string}`,
  O extends Others = Others,
> {
  /** a verb and a noun */
  id: Id;
  /** a GET only reads; everything else needs a key that may change things */
  method: M;
  /** below /sandkeep/v1 */
  path: Path;
  /** the part of the document that it belongs to */
  tag: string;
  summary: string;
  description?: string;
  about: S;
  /** schemas of the names in the path; a value that does not match leads nowhere */
  params?: P;
  /** whether the path may name something new: a value that does not match is then refused with the rule for names */
  namesNew?: boolean;
  query?: Q;
  /** schema of the JSON body */
  body?: B;
  /** content type of a body of bytes, which the handler reads itself */
  bytes?: string;
  answer: Answer<A, O>;
  /** whether `run` calls `once` itself, because its answer is a stream, which cannot be stored */
  callsOnce?: boolean;
  /** the answer's JSON, or a response of another kind that `answer` declares */
  run(given: Given<S, P, Q, B>): Promise<z.input<A> | Response>;
}

/** content types other than JSON: each with the schema of a line, of an event or, for bytes, none */
export type Others = Record<string, z.ZodType | undefined>;

export interface Answer<A extends z.ZodType = z.ZodType, O extends Others = Others> {
  status: 200 | 201 | 204;
  description: string;
  json?: A;
  others?: O;
}

/** What a handler gets. */
export type Given<S extends Subject, P extends Shape, Q extends Shape, B extends z.ZodType> = {
  caller: Caller;
  params: z.output<z.ZodObject<P>>;
  query: z.output<z.ZodObject<Q>>;
  body: z.output<B>;
  request: Request;
  connection: Connection;
  /** does the work, or returns its result of an earlier request with the same Idempotency-Key; results are plain JSON */
  once<T>(work: () => Promise<T>): Promise<T>;
} & (S extends "project" ? { owner: Owner } : S extends "session" ? { session: string } : unknown);

/** Any operation, for code that handles all of them. */
// biome-ignore lint/suspicious/noExplicitAny: only the operation itself knows what its handler takes
export type AnyOperation = Operation<any, any, any, any, any, string, Method, `/${string}`, any>;

/** the operation as it is given; this function only infers its types */
export function operation<
  S extends Subject,
  const Id extends string,
  const M extends Method,
  const Path extends `/${string}`,
  A extends z.ZodType = z.ZodUndefined,
  P extends Shape = Record<never, never>,
  Q extends Shape = Record<never, never>,
  B extends z.ZodType = z.ZodUndefined,
  O extends Others = Record<never, never>,
>(declared: Operation<S, P, Q, B, A, Id, M, Path, O>): Operation<S, P, Q, B, A, Id, M, Path, O> {
  return declared;
}

/**
 * Whether a repeat with the same Idempotency-Key gets the first answer again. A POST is the only method that could do
 * something twice. A body of bytes is not read before the work begins, so nobody could tell whether it is a repeat.
 */
export function isRepeatable({ method, bytes }: Pick<AnyOperation, "method" | "bytes">): boolean {
  return method === "POST" && bytes === undefined;
}

export function answers<A extends z.ZodType>(
  description: string,
  json: A,
  status: 200 | 201 = 200,
): Answer<A, Record<never, never>> {
  return { status, description, json };
}

export function answersNothing(description: string): Answer<z.ZodUndefined, Record<never, never>> {
  return { status: 204, description };
}

/** the query's parameters that an operation has besides its own, by what it is about */
export const scopeQueries = {
  host: {},
  team: { team: teamName() },
  project: { team: teamName(), project: projectName() },
  session: { team: teamName(), project: projectName() },
} satisfies Record<Subject, Shape>;

function teamName() {
  const description = "Id or slug of the team. Only an admin key may name a team that is not its own";
  return z.string().min(1).max(128).optional().meta({ description });
}

function projectName() {
  const description = "Id or name of the project. By default the key's project, or the team's first";
  return z.string().min(1).max(128).optional().meta({ description });
}

/** A path of an operation, with its id, which is unique in the document. */
export interface OperationPath {
  id: string;
  path: string;
  params: Shape;
}

const bySession = "/sessions/{session}/";
const bySandbox = "/sandboxes/{sandbox}/";

/** the paths at which an operation is served */
export function pathsOf({ id, path, about, params = {} }: AnyOperation): OperationPath[] {
  const first = { id, path, params };
  if (about !== "session" || !path.startsWith(bySession)) return [first];
  const { session: _, ...others } = params;
  const second = {
    id: `${id}InSandbox`,
    path: path.replace(bySession, bySandbox),
    params: { sandbox: sandboxName, ...others },
  };
  return [first, second];
}

/** names that older sandboxes have, too, so it refuses only what no sandbox can be called */
export const sandboxName = z.string().min(1).max(256).meta({ description: "Name of the sandbox in its project" });

/** a whole number in a query */
export function wholeNumber({ min = 0, max = Number.MAX_SAFE_INTEGER }: { min?: number; max?: number } = {}) {
  return z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .meta({ inQuery: { type: "integer", minimum: min, ...(max < Number.MAX_SAFE_INTEGER && { maximum: max }) } });
}

/** yes or no in a query */
export function flag() {
  return z
    .enum(["true", "false"])
    .transform((text) => text === "true")
    .meta({ inQuery: { type: "boolean" } });
}
