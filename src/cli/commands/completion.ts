/** `sandkeep completion`: scripts that let shells complete commands, options and names of sandboxes. */

import { misuse } from "../errors.ts";
import { unknownVerb } from "../verbs.ts";

export const completionUsage = `Usage: sandkeep completion bash|zsh|fish

Prints a script that lets your shell complete commands, options and names of sandboxes.

Example:
  echo 'source <(sandkeep completion bash)' >> ~/.bashrc
  echo 'source <(sandkeep completion zsh)' >> ~/.zshrc
  sandkeep completion fish > ~/.config/fish/completions/sandkeep.fish
`;

export interface CompletionContext {
  commands: string[];
  /** the usage of a command; empty if it is not known */
  usage(command: string): Promise<string>;
  /** the names of the sandboxes; empty if the daemon does not answer */
  sandboxes(): Promise<string[]>;
  print(line: string): void;
}

const scripts: Record<string, string> = {
  bash: `_sandkeep() {
  local IFS=$'\\n'
  COMPREPLY=($(sandkeep completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _sandkeep sandkeep`,
  zsh: `_sandkeep() {
  local -a found
  found=("\${(@f)$(sandkeep completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found[1] ]]; then compadd -a found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _sandkeep sandkeep`,
  // Without -f, fish adds the files of the directory to the words; where there is no word, files are what is meant.
  fish: `function __sandkeep_find
  set -g __sandkeep_words (sandkeep completion words -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
  test (count $__sandkeep_words) -gt 0
end
complete -c sandkeep -n __sandkeep_find -f -a '$__sandkeep_words'`,
};

export async function completionCommand(args: string[], context: CompletionContext): Promise<void> {
  const [verb = "", ...rest] = args;
  if (verb === "words") {
    const words = rest[0] === "--" ? rest.slice(1) : rest;
    for (const word of await completed(words, context)) context.print(word);
  } else if (verb === "-h" || verb === "--help") context.print(completionUsage.trimEnd());
  else {
    const script = Object.hasOwn(scripts, verb) ? scripts[verb] : undefined;
    if (script === undefined) throw misuse(unknownVerb("completion", verb, Object.keys(scripts)), completionUsage);
    context.print(script);
  }
}

/** commands whose operands are names of sandboxes */
const takeSandboxes = [
  "exec",
  "shell",
  "ps",
  "logs",
  "stop",
  "extend",
  "rm",
  "cp",
  "fork",
  "restore",
  "diff",
  "port",
  "egress",
];

/** the words that may stand in place of the last one */
export async function completed(words: string[], { commands, usage, sandboxes }: CompletionContext): Promise<string[]> {
  const [command = "", ...rest] = words;
  const last = rest.at(-1);
  const fitting = (all: string[]) => [...new Set(all)].filter((word) => word.startsWith(words.at(-1) ?? "")).sort();
  if (last === undefined) return fitting(commands);
  // What follows belongs to a program.
  if (rest.slice(0, -1).includes("--") || !commands.includes(command)) return [];
  if (last.startsWith("-")) return fitting([...(await usage(command)).matchAll(/--[a-z][a-z-]+/g)].map(String));
  if (takeSandboxes.includes(command))
    return fitting((await sandboxes()).map((name) => (command === "cp" ? `${name}:` : name)));
  if (rest.length > 1) return [];
  const verbs = new RegExp(`^(?:Usage:)? +sandkeep ${command} ([a-z][a-z-]*)`, "gm");
  return fitting([...(await usage(command)).matchAll(verbs)].map(([, verb = ""]) => verb));
}
