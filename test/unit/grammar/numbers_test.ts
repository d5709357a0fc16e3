import assert from "node:assert/strict";
import { Expressions } from "../../../src/grammar/expressions.ts";
import { type NumberBounds, numberExpression } from "../../../src/grammar/numbers.ts";
import { Random } from "../engine/random.ts";

Deno.test("numberExpression() holds the numbers within its bounds and no others", () => {
  const random = new Random(5);
  for (let round = 0; round < 400; round++) {
    const scale = [1, 10, 1000, 1_000_000][round % 4]!;
    const draw = () => random.between(-scale * 1000, scale * 1000) / (round % 3 === 0 ? 1000 : 1);
    const [low, high] = [draw(), draw()].sort((a, b) => a - b) as [number, number];
    const isInteger = round % 5 === 0;
    const bounds: NumberBounds = {
      isInteger,
      min: round % 7 ? { value: low, isExclusive: round % 2 === 0 } : undefined,
      max: round % 11 ? { value: high, isExclusive: round % 3 === 0 } : undefined,
      multipleOf: round % 10 === 0 ? [3] : [],
    };
    const expressions = new Expressions();
    const expression = numberExpression(expressions, bounds);
    const isIn = (value: number) =>
      (!isInteger || Number.isInteger(value)) &&
      (!bounds.min || (bounds.min.isExclusive ? value > low : value >= low)) &&
      (!bounds.max || (bounds.max.isExclusive ? value < high : value <= high)) &&
      bounds.multipleOf.every((divisor) => value % divisor === 0);
    for (let i = 0; i < 200; i++) {
      const value = Number(
        [draw() * 1.1, low, high, Math.round(low), high + 0.001][i % 5]!.toFixed(i % 4),
      );
      const text = String(value);
      assert.equal(
        expressions.matches(expression, text),
        isIn(value),
        JSON.stringify([bounds, text]),
      );
    }
  }
});

Deno.test("numberExpression() keeps to bounds of tiny and huge exponents", () => {
  const expressions = new Expressions();
  const within = (min: number, max: number) =>
    numberExpression(expressions, {
      isInteger: false,
      min: { value: min, isExclusive: false },
      max: { value: max, isExclusive: false },
      multipleOf: [],
    });
  const tiny = within(1e-7, 2e-7);
  assert.ok(expressions.matches(tiny, "0.00000015"));
  assert.ok(!expressions.matches(tiny, "0.0000003"));
  assert.ok(expressions.matches(within(-1e21, 1e21), "-999999999999999"));
});
