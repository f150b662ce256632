/** Lists of the daemon that may be longer than one answer. */

/** items of a request for a page */
const pageSize = 500;

/** the pages of a list, one after the other; `read` gets the query of the page */
export async function* pagesOf<P extends { next: string | null }>(
  read: (query: { limit: number; cursor?: string }) => Promise<P>,
): AsyncGenerator<P> {
  let page = await read({ limit: pageSize });
  // A daemon of an earlier build sends some lists whole, without the member.
  for (; typeof page.next === "string"; page = await read({ limit: pageSize, cursor: page.next })) yield page;
  yield page;
}
