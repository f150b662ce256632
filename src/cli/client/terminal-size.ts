/** A program in a session, and the size of the terminal here. */

export interface Program {
  session: string;
  command: string;
}

export function sizeOf({ rows, columns }: NodeJS.WriteStream): { rows: number; columns: number } {
  return { rows: rows || 24, columns: columns || 80 };
}
