/** Bounds the size of maps by deleting their oldest entries. */

export function keepLast<K>(map: Map<K, unknown>, most: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= most) return;
    map.delete(oldest);
  }
}
