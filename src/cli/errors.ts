/** An error on the command line: a sentence and, if there is one, a hint about what to do. */

export class CliError extends Error {
  override readonly name = "CliError";
  readonly exitCode: number = 1;

  constructor(message: string, hint?: string) {
    super(hint === undefined ? message : `${message}\nhint: ${hint}`);
  }
}

/** An error about the words of a command line: with the forms that the command has, and not with all of its help. */
export function misuse(message: string, usage: string): CliError {
  const [forms] = usage.split("\n\n", 1);
  const [command = "sandkeep"] = /sandkeep [a-z]+/.exec(usage) ?? [];
  return new CliError(`${message}\n\n${forms}`, `${command} --help shows the options`);
}

/** Nothing answers at the daemon's address: it may do so later, with the same settings. */
export class NoAnswer extends CliError {}

const keyOrder =
  "the key is that of SANDKEEP_API_KEY, else of the chosen context (sandkeep context ls), else of the daemon's data directory";

/** The daemon answered with a refusal. */
export class Refusal extends CliError {
  /** HTTP status */
  readonly status: number;
  /** what the daemon calls the error, if it says so */
  readonly code: string | undefined;

  constructor(message: string, status: number, code?: string) {
    super(message, status === 401 ? keyOrder : undefined);
    this.status = status;
    this.code = code;
  }
}

/** A sandbox has no such program: the exit code is the one that shells use. */
export class NoProgram extends CliError {
  override readonly exitCode = 127;
}
