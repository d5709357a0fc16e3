import assert from "node:assert/strict";
import { placeLabels } from "../../../src/ui/embedding_page.tsx";

Deno.test("placeLabels() moves a label out of another's way, and leaves out one that has no place", () => {
  const text = "some words";
  const [alone] = placeLabels([{ x: 0, y: 0, text }]);
  assert.equal(alone!.label!["text-anchor"], "start");
  // To the right there is the other point.
  const [moved, second] = placeLabels([{ x: 0, y: 0, text }, { x: 30, y: 4, text }]);
  assert.deepEqual([moved, second].map((each) => each!.label!["text-anchor"]), ["end", "start"]);
  const crowd = Array.from({ length: 30 }, (_, at) => ({ x: at % 6, y: at % 5, text }));
  const placed = placeLabels(crowd).filter(({ label }) => label !== undefined);
  assert.ok(placed.length >= 1 && placed.length <= 4, `${placed.length}`);
  const [edge] = placeLabels([{ x: 120, y: 0, text }]);
  assert.equal(edge!.label!["text-anchor"], "end");
});
