/**
 * Finds the routes of a request, and remembers the answers for the latest paths: clients ask for the same session again
 * and again, and a search takes longer than most of what the route does.
 */

import type { Result, Router } from "hono/router";
import { TrieRouter } from "hono/router/trie-router";
import { keepLast } from "../../../base/bounded-map.ts";

/** most paths that are remembered, and the longest of them */
const mostPaths = 1000;
const longestPath = 256;

export class RememberingRouter<T> implements Router<T> {
  readonly name = "RememberingRouter";
  readonly #routes = new TrieRouter<T>();
  readonly #known = new Map<string, Result<T>>();

  add(method: string, path: string, handler: T): void {
    this.#known.clear();
    this.#routes.add(method, path, handler);
  }

  match(method: string, path: string): Result<T> {
    const request = `${method} ${path}`;
    const known = this.#known.get(request);
    if (known) return known;
    const found = this.#routes.match(method, path);
    // A path without a route is an error of the client, which is not worth room here.
    if (path.length <= longestPath && found[0].length > 0) {
      this.#known.set(request, found);
      keepLast(this.#known, mostPaths);
    }
    return found;
  }
}
