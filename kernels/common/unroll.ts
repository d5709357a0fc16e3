/**
 * Unrolled loops of shaders.
 *
 * @module
 */

/** 0 to `count - 1`. */
export function range(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** Statements, one below the other. */
export function lines(all: readonly string[]): string {
  return all.join("\n");
}

/** The lines of a loop over 0 to `count - 1`, unrolled. */
export function repeat(count: number, write: (index: number) => string): string {
  return lines(range(count).map(write));
}
