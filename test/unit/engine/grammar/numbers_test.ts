import assert from "node:assert/strict";
import { Expressions } from "../../../../src/engine/grammar/expressions.ts";
import { buildNumber, type NumberBounds } from "../../../../src/engine/grammar/numbers.ts";
import { Random } from "../random.ts";

Deno.test("buildNumber() matches the numbers within its bounds and no others", () => {
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
    const expression = buildNumber(expressions, bounds);
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

Deno.test("buildNumber() matches the multiples of fractions and no others", () => {
  const random = new Random(8);
  for (const divisor of [0.1, 0.01, 0.5, 0.25, 1.25, 2.5, 0.3, 7.5, 12, 0.125, 100, 0.0005]) {
    const expressions = new Expressions();
    const expression = buildNumber(expressions, {
      isInteger: Number.isInteger(divisor),
      multipleOf: [divisor],
    });
    // In units of a millionth, so that all values are integers.
    const unit = Math.round(divisor * 1e6);
    for (let i = 0; i < 400; i++) {
      const millionths = i % 2
        ? random.between(-1e6, 1e6) * (i % 5)
        : random.between(-99, 99) * unit;
      const text = String(millionths / 1e6);
      if (/e/.test(text)) continue;
      const isWhole = Number.isInteger(divisor) ? !text.includes(".") : true;
      assert.equal(
        expressions.matches(expression, text),
        isWhole && millionths % unit === 0,
        `${text} by ${divisor}`,
      );
    }
  }
});

Deno.test("buildNumber() respects bounds with tiny and huge exponents", () => {
  const expressions = new Expressions();
  const within = (min: number, max: number) =>
    buildNumber(expressions, {
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
