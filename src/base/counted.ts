/** A number and its noun: "1 sandbox", "2 sandboxes". */

export function counted(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`;
}
