/**
 * Parses a Dockerfile into a list of instructions with line numbers. The dockerfile-ast library handles lines,
 * comments, continuations and heredocs. Unsupported instructions and flags are refused here by name, before anything
 * runs.
 */

import { DockerfileParser, type Heredoc as HeredocNode, type Instruction as Node } from "dockerfile-ast";
import { SandkeepError } from "../../../core/model/errors.ts";

export type Keyword = keyof typeof flagsOf;

export interface Instruction {
  keyword: Keyword;
  line: number;
  /** values by name, without dashes; "" for a flag without a value */
  flags: Record<string, string>;
  /** the arguments in one line, without comments; only the first line if there are heredocs */
  content: string;
  /** the arguments as written, heredocs included */
  raw: string;
  heredocs: Heredoc[];
}

export interface Heredoc {
  name: string;
  content: string;
  /** whether variables in it are expanded: true if its name has no quotes */
  expands: boolean;
}

export interface InstructionList {
  /** the character that continues lines and escapes the next character */
  escapeMark: string;
  instructions: Instruction[];
}

// The parser would block the daemon for seconds on a hostile text of 256 KiB.
const longestText = 64 << 10;
const mostInstructions = 1000;

/** each instruction that we support, with its supported flags */
const flagsOf = {
  FROM: ["platform"],
  ARG: [],
  ENV: [],
  RUN: [],
  COPY: ["from", "chown", "chmod", "link"],
  ADD: ["chown", "chmod", "link"],
  WORKDIR: [],
  USER: [],
  ENTRYPOINT: [],
  CMD: [],
  EXPOSE: [],
  LABEL: [],
  VOLUME: [],
  SHELL: [],
  STOPSIGNAL: [],
  MAINTAINER: [],
} satisfies Record<string, string[]>;

const refused = ["HEALTHCHECK", "ONBUILD"];

export function readInstructions(text: string): InstructionList {
  if (text.length > longestText) throw wrong(`it is longer than ${longestText} characters`);
  const file = DockerfileParser.parse(text.replace(/^\ufeff/, ""));
  const syntax = file.getDirectives().find((directive) => directive.getName().toLowerCase() === "syntax");
  const frontend = syntax?.getValue() ?? "";
  if (syntax && !/^(docker\.io\/)?docker\/dockerfile(-upstream)?([:@].*)?$/.test(frontend)) {
    throw wrongAt(syntax.getRange().start.line + 1, `the syntax "${frontend}" is not supported`);
  }
  const escapeMark = file.getEscapeCharacter();
  const nodes = file.getInstructions();
  if (nodes.length > mostInstructions) throw wrong(`it has more than ${mostInstructions} instructions`);
  const lines = text.replace(/^\ufeff/, "").split("\n");
  return { escapeMark, instructions: nodes.map((node) => instructionOf(node, lines, escapeMark)) };
}

/** an error that says why the Dockerfile cannot be built, with the line */
export function wrongAt(line: number, why: string, cause?: unknown): SandkeepError {
  return new SandkeepError("invalid", `Cannot build from the Dockerfile: line ${line}: ${why}`, { cause });
}

export function wrong(why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot build from the Dockerfile: ${why}`);
}

function instructionOf(node: Node, lines: string[], escapeMark: string): Instruction {
  const keyword = node.getKeyword();
  const line = (node.getRange()?.start.line ?? 0) + 1;
  if (refused.includes(keyword)) throw wrongAt(line, `${keyword} is not supported`);
  if (!isKeyword(keyword)) throw wrongAt(line, `there is no instruction ${keyword.slice(0, 50)}`);
  const heredocs = ((node as unknown as WithParts).getHeredocs?.() ?? []).map((heredoc) =>
    heredocOf(heredoc, lines, line),
  );
  const raw = node.getRawArgumentsContent()?.trim() ?? "";
  const content = heredocs.length > 0 ? raw : joined(raw, escapeMark);
  const { flags, rest } = withoutFlags(node, content);
  for (const name of Object.keys(flags)) {
    if (!(flagsOf[keyword] as string[]).includes(name)) throw wrongAt(line, `${keyword} --${name} is not supported`);
  }
  const head = heredocs.length > 0 ? (rest.split("\n", 1)[0] ?? "") : rest;
  return { keyword, line, flags, content: head.trim(), raw, heredocs };
}

/** joins continued lines into one; the parser leaves some comments between them */
function joined(raw: string, escapeMark: string): string {
  const [first = "", ...more] = raw.split(/\r?\n/);
  const lines = [first, ...more.filter((line) => !/^\s*(#|$)/.test(line))];
  const ends = (line: string) => {
    const end = line.trimEnd();
    return end.endsWith(escapeMark) ? end.slice(0, -1) : line;
  };
  return lines.map(ends).join("").trim();
}

/** Methods that only some kinds of instructions have; the parser does not export their classes. */
interface WithParts {
  getFlags?(): { getName(): string; getValue(): string | null }[];
  getHeredocs?(): HeredocNode[];
}

/** the parser recognizes the flags of some instructions only, and leaves the others in the arguments */
function withoutFlags(node: Node, content: string): { flags: Record<string, string>; rest: string } {
  const flags: Record<string, string> = {};
  const known = (node as unknown as WithParts).getFlags?.() ?? [];
  for (const flag of known) flags[flag.getName().toLowerCase()] = flag.getValue() ?? "";
  let rest = content;
  for (;;) {
    const [whole, name = "", value = ""] = /^--([a-zA-Z-]+)(?:=(\S*))?(?:\s+|$)/.exec(rest) ?? [];
    if (whole === undefined || !("getFlags" in node)) return { flags, rest };
    flags[name.toLowerCase()] = value;
    rest = rest.slice(whole.length);
  }
}

function heredocOf(heredoc: HeredocNode, lines: string[], line: number): Heredoc {
  const start = heredoc.getStartRange();
  const name = heredoc.getName();
  if (!heredoc.getDelimiterRange()) throw wrongAt(line, `the heredoc ${name} has no end`);
  const mark = lines[start.start.line]?.slice(start.start.character) ?? "";
  const tabs = mark.startsWith("<<-");
  const range = heredoc.getContentRange();
  const body = range ? lines.slice(range.start.line, range.end.line + 1) : [];
  const content = body.map((each) => `${(tabs ? each.replace(/^\t+/, "") : each).replace(/\r$/, "")}\n`).join("");
  return { name, content, expands: !/^<<-?["']/.test(mark) };
}

function isKeyword(keyword: string): keyword is Keyword {
  return Object.hasOwn(flagsOf, keyword);
}
