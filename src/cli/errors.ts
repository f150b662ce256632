/** An error on the command line: a sentence and, if there is one, a hint about what to do. */

export class CliError extends Error {
  override readonly name = "CliError";

  constructor(message: string, hint?: string) {
    super(hint === undefined ? message : `${message}\nhint: ${hint}`);
  }
}

/** Nothing answers at the daemon's address: it may do so later, with the same settings. */
export class NoAnswer extends CliError {}

/** The daemon answered with a refusal. */
export class Refusal extends CliError {
  /** HTTP status */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}
