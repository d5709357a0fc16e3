import assert from "node:assert/strict";
import type { UprightBox } from "../../../../src/models/ocr/line_boxes.ts";
import { groupRows } from "../../../../src/models/ocr/page_order.ts";

const box = (left: number, top: number, width = 40, height = 10): UprightBox => ({
  left,
  top,
  right: left + width,
  bottom: top + height,
});

/** Rows as indices in the list of boxes. */
function order(boxes: readonly UprightBox[]): number[][] {
  return groupRows([...boxes.keys()], (index) => boxes[index]!);
}

Deno.test("groupRows() puts boxes at the same height in a row, from the left", () => {
  assert.deepEqual(order([box(100, 2), box(0, 0), box(50, 1)]), [[1, 2, 0]]);
});

Deno.test("groupRows() separates lines that overlap slightly", () => {
  assert.deepEqual(order([box(0, 8), box(0, 0), box(0, 16)]), [[1], [0], [2]]);
});

Deno.test("groupRows() puts small print next to a large heading into its row", () => {
  assert.deepEqual(order([box(0, 0, 200, 40), box(210, 15, 40, 10), box(0, 60)]), [[0, 1], [2]]);
});

Deno.test("groupRows() returns no rows without boxes", () => {
  assert.deepEqual(order([]), []);
});
