import assert from "node:assert/strict";
import { orderPage } from "../../../../src/models/ocr/page_order.ts";
import type { LineBox } from "../../../../src/models/ocr/line_boxes.ts";

function makeBox(left: number, top: number, width: number, height: number): LineBox {
  const [right, bottom] = [left + width, top + height];
  return {
    topLeft: [left, top],
    topRight: [right, top],
    bottomRight: [right, bottom],
    bottomLeft: [left, bottom],
  };
}

/** The same line after a quarter turn of the page clockwise; the page is 1,000 pixels high. */
function turn({ topLeft, topRight, bottomRight, bottomLeft }: LineBox): LineBox {
  const [a, b, c, d] = [topLeft, topRight, bottomRight, bottomLeft]
    .map(([x, y]) => [1000 - y, x] as [number, number]);
  return { topLeft: d!, topRight: a!, bottomRight: b!, bottomLeft: c! };
}

/** The rows of a page, as indices of its lines. */
function order(lines: readonly LineBox[]): number[][] {
  return orderPage(lines).map((row) => row.map((line) => lines.indexOf(line)));
}

const text = Array.from({ length: 10 }, (_, i) => makeBox(200, 100 + 40 * i, 500, 24));

Deno.test("orderPage() reads the left margin before the text, and the right one after it", () => {
  const left = makeBox(60, 150, 30, 300);
  const right = makeBox(800, 120, 30, 200);
  const rows = [[10], ...text.keys().map((i) => [i]), [11]];
  assert.deepEqual(order([...text, left, right]), rows);
  assert.deepEqual(order([...text, left, right].map(turn)), rows);
});

Deno.test("orderPage() keeps single digits in their rows", () => {
  const digits = text.map((_, i) => makeBox(100, 100 + 40 * i, 12, 24));
  const rows = text.map((_, i) => [10 + i, i]);
  assert.deepEqual(order([...text, ...digits]), rows);
});
