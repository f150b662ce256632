/** What fills a sandbox before its first command: a repository, an archive from the web, or a snapshot. */

import type { Context } from "../context.ts";
import { trustEnvironment, trusted } from "../images/trust.ts";
import { messageOf, SandkeepError } from "../model/errors.ts";
import type { Session } from "../model/sandbox.ts";
import type { EgressJournal, Machine, Runtime } from "../ports/runtime.ts";
import { openEnvironment } from "./environments.ts";

export type Source =
  | {
      kind: "git";
      url: string;
      depth?: number | undefined;
      revision?: string | undefined;
      username?: string | undefined;
      password?: string | undefined;
      /** destination below the directory where commands start; default that directory */
      directory?: string | undefined;
    }
  | { kind: "tarball"; url: string }
  | { kind: "snapshot"; snapshotId: string };

const timeLimit = 10 * 60_000;
const longestComplaint = 2000;

/**
 * Runs inside the sandbox, as the session's user, so the network policy applies. If it was refused, the error has the
 * reason that is in the egress log too.
 */
export async function fetchSource(
  context: Pick<Context, "hostRoots" | "sandboxEnv" | "seal" | "redact"> & { runtime: Pick<Runtime, "egress"> },
  machine: Machine,
  session: Session,
  source: Exclude<Source, { kind: "snapshot" }>,
): Promise<void> {
  const own = openEnvironment(session.env, context.seal);
  const base = { ...trustEnvironment(session.networkPolicy, context), ...own };
  if (source.kind === "git" && source.password !== undefined) context.redact?.(source.password);
  try {
    if (source.kind === "git") await clone(machine, { ...session, env: base }, source);
    else await unpack(machine, { ...session, env: base }, source.url);
  } catch (cause) {
    const reason = await refusalOf(context.runtime.egress(machine.id));
    if (reason === undefined || !(cause instanceof SandkeepError)) throw cause;
    throw new SandkeepError(cause.code, `${cause.message}. ${reason}`, { cause });
  }
}

/** why the last connection that was refused was; nothing else than the source has run in the machine yet */
async function refusalOf(journal: EgressJournal | undefined): Promise<string | undefined> {
  const { lines } = (await journal?.lines({ after: 0, limit: 1000 }).catch(() => undefined)) ?? { lines: [] };
  return lines.flatMap((line) => ("reason" in line && line.reason !== undefined ? [line.reason] : [])).at(-1);
}

async function clone(machine: Machine, session: Session, source: Extract<Source, { kind: "git" }>): Promise<void> {
  const depth = source.depth === undefined ? [] : ["--depth", `${source.depth}`];
  // git gets credentials through its environment: not in its arguments or the repository's configuration
  const env: SourceEnvironment = { GIT_TERMINAL_PROMPT: "0", SOURCE_URL: source.url };
  const helper: string[] = [];
  if (source.username !== undefined || source.password !== undefined) {
    env.SOURCE_USERNAME = source.username ?? "";
    env.SOURCE_PASSWORD = source.password ?? "";
    helper.push(
      "-c",
      `credential.helper=!f() { echo "username=$SOURCE_USERNAME"; echo "password=$SOURCE_PASSWORD"; }; f`,
    );
  }
  const git = (...args: string[]) => run(machine, session, ["git", ...helper, ...args], env, "clone");
  const { revision, directory = "." } = source;
  const branch = revision?.replace(/^refs\/heads\//, "");
  if (branch === undefined) return void (await git("clone", ...depth, "--", source.url, directory));
  // Only a clone leaves the repository on its branch. Other revisions than branches and tags need a separate fetch.
  const isNamed = !/^([0-9a-f]{40}|[0-9a-f]{64}|refs\/.*)$/.test(branch);
  const cloned = isNamed && (await succeeds(git("clone", ...depth, "--branch", branch, "--", source.url, directory)));
  if (cloned) return;
  const at = ["-C", directory];
  await git("init", "--quiet", "--", directory);
  await git(...at, "remote", "add", "origin", source.url);
  await git(...at, "fetch", ...depth, "origin", branch);
  await git(...at, "checkout", "--quiet", "FETCH_HEAD");
}

/** false if the remote has no such branch or tag */
async function succeeds(cloning: Promise<void>): Promise<boolean> {
  return cloning.then(
    () => true,
    (error) => {
      if (/Remote branch .* not found/.test(messageOf(error))) return false;
      throw error;
    },
  );
}

async function unpack(machine: Machine, session: Session, url: string): Promise<void> {
  const script =
    'set -e; f=$(mktemp); trap "rm -f $f" EXIT; curl -fsSL --retry 2 -o "$f" -- "$SOURCE_URL"; tar -xf "$f"';
  await run(machine, session, ["sh", "-c", script], { SOURCE_URL: url }, "fetch");
}

let count = 0;

interface SourceEnvironment extends Record<string, string> {
  SOURCE_URL: string;
}

async function run(machine: Machine, session: Session, argv: string[], env: SourceEnvironment, verb: string) {
  await trusted(machine);
  count++;
  const process = await machine.exec({
    id: `source-${count}`,
    argv,
    env: { ...session.env, ...env },
    cwd: session.cwd,
    user: session.user,
    timeLimit,
  });
  let said = "";
  for await (const chunk of process.output()) {
    if (said.length < longestComplaint) said += new TextDecoder().decode(chunk.data);
  }
  const { code } = await process.exited;
  if (code !== 0) {
    const complaint = said.trim().split("\n").slice(-3).join(" ").slice(0, longestComplaint);
    const why = withoutCredentials(complaint) || `it ended with code ${code}`;
    throw new SandkeepError("invalid", `Cannot ${verb} "${withoutCredentials(env.SOURCE_URL)}": ${why}`);
  }
}

/** removes credentials before the @ of URLs, which must not appear in errors and logs */
function withoutCredentials(text: string): string {
  return text.replaceAll(/(\w+:\/\/)[^\s/?#"'<>]*@/g, "$1");
}
