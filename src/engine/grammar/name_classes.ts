/**
 * Divides names into classes. Names of different classes are different, so that members whose names the schema does not
 * list can be counted by the classes of their names.
 *
 * @module
 */
import { ANYTHING, type Expressions } from "./expressions.ts";

/** Most unlisted members that can be counted. */
export const MAX_CLASSES = 8;

/**
 * Returns disjoint classes, each an expression, that together cover all names. They divide by first byte, by last byte
 * or by length: whichever leaves the most classes that contain an allowed name.
 */
export function nameClasses(
  expressions: Expressions,
  names: number,
): readonly number[] {
  const byByte = Array.from({ length: MAX_CLASSES }, (_, rest) => {
    const bits = new Uint32Array(8);
    for (let byte = rest; byte < 256; byte += MAX_CLASSES) bits[byte >>> 5]! |= 1 << (byte & 31);
    return expressions.set(bits);
  });
  const anyByte = expressions.range(0, 255);
  const round = expressions.repeat(anyByte, MAX_CLASSES, MAX_CLASSES);
  const partitions = [
    byByte.map((byte) => expressions.concat([byte, ANYTHING])),
    byByte.map((byte) => expressions.concat([ANYTHING, byte])),
    byByte.map((_, rest) =>
      expressions.concat([
        expressions.repeat(round, 0, Infinity),
        expressions.repeat(anyByte, rest, rest),
      ])
    ),
  ];
  let most: number[] = [];
  for (const classes of partitions) {
    // The empty name has no bytes.
    const others = expressions.not(expressions.or(classes.slice(1)));
    const found = [others, ...classes.slice(1)]
      .filter((each) => !expressions.isEmpty(expressions.and([names, each])));
    if (found.length > most.length) most = found;
  }
  return most;
}
