/** The code that Node and many libraries put on their errors, such as "ENOENT". */

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
