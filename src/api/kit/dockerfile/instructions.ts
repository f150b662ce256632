/**
 * A Dockerfile as a list of instructions, each with the line it stands on. The grammar of lines, comments, continuations and
 * heredocs is dockerfile-ast's; what we do not support is refused here, by name, before anything runs.
 */

import { DockerfileParser, type Heredoc as HeredocNode, type Instruction as Node } from "dockerfile-ast";
import { SandkeepError } from "../../../core/model/errors.ts";

export type Keyword = keyof typeof flagsOf;

export interface Instruction {
  keyword: Keyword;
  line: number;
  /** by name, without its dashes; one without a value has "" */
  flags: Record<string, string>;
  /** its arguments in one line, without comments; of one with heredocs only the first line */
  content: string;
  /** its arguments as they were written, heredocs included */
  raw: string;
  heredocs: Heredoc[];
}

export interface Heredoc {
  name: string;
  content: string;
  /** whether variables in it are expanded: its name stands without quotes */
  expands: boolean;
}

export interface InstructionList {
  /** the character that continues lines and takes away a character's meaning */
  escapeMark: string;
  instructions: Instruction[];
}

// The parser takes seconds of the daemon's time for a hostile text of 256 KiB.
const longestText = 64 << 10;
const mostInstructions = 1000;

/** each instruction that we carry out, and its flags that we know */
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
  SHELL: [],
  STOPSIGNAL: [],
  MAINTAINER: [],
} satisfies Record<string, string[]>;

const refused = ["VOLUME", "HEALTHCHECK", "ONBUILD"];

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

/** that the Dockerfile cannot be built from, and where in it that is */
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

/** one line of several; the parser leaves some comments between them in */
function joined(raw: string, escapeMark: string): string {
  const [first = "", ...more] = raw.split(/\r?\n/);
  const lines = [first, ...more.filter((line) => !/^\s*(#|$)/.test(line))];
  const ends = (line: string) => {
    const end = line.trimEnd();
    return end.endsWith(escapeMark) ? end.slice(0, -1) : line;
  };
  return lines.map(ends).join("").trim();
}

/** What only some kinds of instructions have, whose classes the parser does not export. */
interface WithParts {
  getFlags?(): { getName(): string; getValue(): string | null }[];
  getHeredocs?(): HeredocNode[];
}

/** the parser knows the flags of some instructions only, and leaves them in the arguments of others */
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
