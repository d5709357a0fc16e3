import assert from "node:assert/strict";
import { computeCosines, placeLabels, project } from "../../../src/ui/embedding_page.tsx";

Deno.test("placeLabels() moves labels apart and drops one that fits nowhere", () => {
  const text = "some words";
  const [alone] = placeLabels([{ x: 0, y: 0, text }]);
  assert.equal(alone!.label!["text-anchor"], "start");
  // The second point is to the right of the first.
  const [moved, second] = placeLabels([{ x: 0, y: 0, text }, { x: 30, y: 4, text }]);
  assert.deepEqual([moved, second].map((each) => each!.label!["text-anchor"]), ["end", "start"]);
  const crowd = Array.from({ length: 30 }, (_, at) => ({ x: at % 6, y: at % 5, text }));
  const placed = placeLabels(crowd).filter(({ label }) => label !== undefined);
  assert.ok(placed.length >= 1 && placed.length <= 4, `${placed.length}`);
  const [edge] = placeLabels([{ x: 120, y: 0, text }]);
  assert.equal(edge!.label!["text-anchor"], "end");
});

Deno.test("computeCosines() compares all pairs", () => {
  const [[self, other], [, last]] = computeCosines([[1, 0], [1, 1]]) as [number[], number[]];
  assert.equal(self, 1);
  assert.ok(Math.abs(other! - Math.SQRT1_2) < 1e-12 && Math.abs(last! - 1) < 1e-12);
});

Deno.test("project() finds the plane that points lie in", () => {
  // Four corners of a rectangle, longer than wide, in three dimensions.
  const corners = [[3, 1, 5], [3, -1, 5], [-3, 1, 5], [-3, -1, 5]];
  const points = project(corners);
  for (const [x, y] of points) {
    assert.ok(Math.abs(Math.abs(x) - 1) < 1e-6 && Math.abs(Math.abs(y) - 1) < 1e-6, `${x} ${y}`);
  }
  assert.equal(Math.sign(points[0]![0]), Math.sign(points[1]![0]));
  assert.notEqual(Math.sign(points[0]![0]), Math.sign(points[2]![0]));
  assert.deepEqual(project([[1, 2]]), [[0, 0]]);
});
