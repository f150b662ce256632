/** What goes wrong on the command line: a sentence, and where there is one a hint what to do about it. */

export class CliError extends Error {
  override readonly name = "CliError";

  constructor(message: string, hint?: string) {
    super(hint === undefined ? message : `${message}\nhint: ${hint}`);
  }
}

/** The daemon answers, and refuses. */
export class Refusal extends CliError {
  /** of HTTP */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}
