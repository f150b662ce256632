/** Keeps maps small: what was put in last stays. */

export function keepLast<K>(map: Map<K, unknown>, most: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= most) return;
    map.delete(oldest);
  }
}
