/** The lines of a loop over 0 to `count - 1`, written out. */
export function repeat(count: number, write: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => write(index)).join("\n");
}
