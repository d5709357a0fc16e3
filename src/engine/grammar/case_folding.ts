/**
 * Characters that differ by case alone.
 *
 * @module
 */
import { type CodePoints, hasCodePoint, unite } from "./code_points.ts";

/** The last letter that has two cases, in Adlam. */
const LAST_CASED = 0x1e943;
/** The dotted capital I and the dotless small one, each the other's alone in Turkish. */
const UNFOLDED = new Set([0x130, 0x131]);

/** Code points that are the same letter, by each of them. */
let variants: ReadonlyMap<number, readonly number[]> | undefined;

/** The set with the other cases of its letters, as ECMA-262 folds them with its flags `i` and `u`. */
export function closeCase(points: CodePoints): CodePoints {
  variants ??= findVariants();
  const others = [...variants].flatMap(([point, same]) => hasCodePoint(points, point) ? same : []);
  return unite([...points, ...others.map((point) => [point, point] as const)]);
}

function findVariants(): ReadonlyMap<number, readonly number[]> {
  const groups = new Map<number, Set<number>>();
  for (let point = 0; point <= LAST_CASED; point++) {
    if (UNFOLDED.has(point)) continue;
    const char = String.fromCodePoint(point);
    for (const other of [char.toLowerCase(), char.toUpperCase()]) {
      const code = other.codePointAt(0)!;
      if (other === char || String.fromCodePoint(code) !== other) continue;
      const group = new Set([...groups.get(point) ?? [point], ...groups.get(code) ?? [code]]);
      group.forEach((each) => groups.set(each, group));
    }
  }
  return new Map([...groups].map(([point, group]) => [point, [...group]]));
}
