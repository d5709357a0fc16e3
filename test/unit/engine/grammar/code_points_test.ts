import assert from "node:assert/strict";
import {
  closeCase,
  type CodePoints,
  complementPoints,
  encodeSet,
  hasCodePoint,
  intersect,
  unite,
} from "../../../../src/engine/grammar/code_points.ts";
import { Expressions } from "../../../../src/engine/grammar/expressions.ts";
import { Random } from "../random.ts";

/** Ranges begin and end around each of these points, where the number of UTF-8 bytes or every byte changes. */
const EDGES = [0, 0x80, 0x800, 0x1000, 0xd800, 0xe000, 0x10000, 0x40000, 0x100000, 0x110000];
const NEAR = EDGES.flatMap((edge) => [-3, -2, -1, 0, 1, 2].map((offset) => edge + offset))
  .filter((point) => point >= 0 && point < 0x110000);

const isSurrogate = (point: number) => point >= 0xd800 && point < 0xe000;
const utf8 = new TextEncoder();

function randomRanges(random: Random): [number, number][] {
  return Array.from({ length: random.between(0, 6) }, () => {
    const ends = [random.pick(NEAR), random.pick(NEAR)];
    return [Math.min(...ends), Math.max(...ends)];
  });
}

function assertApart(points: CodePoints): void {
  for (const [i, [first, last]] of points.entries()) {
    assert.ok(first <= last);
    // Except at the gap of surrogates.
    if (i > 0 && first !== 0xe000) assert.ok(first > points[i - 1]![1] + 1);
  }
}

Deno.test("unite(), complementPoints(), intersect() and encodeSet() are correct for every code point near an edge", () => {
  const random = new Random(11);
  for (let round = 0; round < 300; round++) {
    const ranges = randomRanges(random);
    const others = randomRanges(random);
    const [set, other] = [unite(ranges), unite(others)];
    const complement = complementPoints(set);
    const both = intersect(set, other);
    for (const points of [set, complement, both]) assertApart(points);
    const expressions = new Expressions();
    const encoded = encodeSet(expressions, set);
    for (const point of NEAR) {
      const isIn = (of: readonly (readonly [number, number])[]) =>
        of.some(([first, last]) => first <= point && point <= last) && !isSurrogate(point);
      assert.equal(hasCodePoint(set, point), isIn(ranges));
      assert.equal(hasCodePoint(complement, point), !isSurrogate(point) && !isIn(ranges));
      assert.equal(hasCodePoint(both, point), isIn(ranges) && isIn(others));
      if (isSurrogate(point)) continue;
      const bytes = [...utf8.encode(String.fromCodePoint(point))];
      const matches = (text: readonly number[]) =>
        expressions.isNullable(
          text.reduce((rest, byte) => expressions.derive(rest, byte), encoded),
        );
      assert.equal(matches(bytes), isIn(ranges), point.toString(16));
      if (bytes.length === 1) continue;
      // Invalid UTF-8 is no character.
      const broken = bytes.with(random.between(1, bytes.length - 1), random.pick([0x7f, 0xc0]));
      assert.ok(!matches(broken), String(broken));
    }
  }
});

Deno.test("closeCase() adds the cases that RegExp treats as the same letter", () => {
  const random = new Random(3);
  const letters = Array.from({ length: 400 }, () => random.between(0x41, 0x2fff));
  for (const point of [...letters, 0x130, 0x131, 0x17f, 0x212a, 0x1e9e, 0xdf, 0x3c2, 0x10400]) {
    const closed = closeCase([[point, point]]);
    const regex = new RegExp(`^\\u{${point.toString(16)}}$`, "iu");
    const shown = closed.flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i))
    );
    assert.ok(shown.every((char) => regex.test(char)), point.toString(16));
    const char = String.fromCodePoint(point);
    for (const other of [char.toLowerCase(), char.toUpperCase(), "\u212a", "\u017f", "i", "I"]) {
      if ([...other].length === 1) assert.equal(shown.includes(other), regex.test(other), other);
    }
  }
});
