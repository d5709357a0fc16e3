import assert from "node:assert/strict";
import { cosines, project } from "../../../src/ui/embedding_page.tsx";

Deno.test("cosines() compares all pairs", () => {
  const [[self, other], [, last]] = cosines([[1, 0], [1, 1]]) as [number[], number[]];
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
