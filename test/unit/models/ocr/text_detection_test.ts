import assert from "node:assert/strict";
import { findRegions, type ProbabilityMap } from "../../../../src/models/ocr/text_detection.ts";

const OPTIONS = { threshold: 0.3, boxThreshold: 0.5, unclipRatio: 0 };

/** A map of zeros with a rotated bar of `level` around its middle. */
function bar(
  { width = 120, height = 80, length = 60, thickness = 12, degrees = 0, level = 0.9 } = {},
): ProbabilityMap {
  const angle = degrees * Math.PI / 180;
  const data = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const [dx, dy] = [x + 0.5 - width / 2, y + 0.5 - height / 2];
      const along = dx * Math.cos(angle) + dy * Math.sin(angle);
      const across = dy * Math.cos(angle) - dx * Math.sin(angle);
      if (Math.abs(along) <= length / 2 && Math.abs(across) <= thickness / 2) {
        data[y * width + x] = level;
      }
    }
  }
  return { width, height, data };
}

Deno.test("findRegions() finds a horizontal bar to the pixel", () => {
  const [region, ...others] = findRegions(bar(), OPTIONS);
  assert.equal(others.length, 0);
  const { center, direction, width, height } = region!;
  assert.deepEqual({ center, direction, width, height }, {
    center: [60, 40],
    direction: [1, 0],
    width: 60,
    height: 12,
  });
});

for (const degrees of [-40, -12, 7, 33, 80]) {
  Deno.test(`findRegions() finds a bar that is rotated by ${degrees}°`, () => {
    const [region, ...others] = findRegions(bar({ degrees }), OPTIONS);
    assert.equal(others.length, 0);
    const { center, direction, width, height } = region!;
    assert.ok(Math.hypot(center[0] - 60, center[1] - 40) < 1);
    const isStanding = degrees > 45;
    const [long, short] = isStanding ? [height, width] : [width, height];
    assert.ok(Math.abs(long - 60) < 3 && Math.abs(short - 12) < 3, `${long} × ${short}`);
    const seen = Math.atan2(direction[1], direction[0]) * 180 / Math.PI;
    const expected = isStanding ? degrees - 90 : degrees;
    assert.ok(Math.abs(seen - expected) < 3, `${seen}°`);
  });
}

Deno.test("findRegions() grows regions by area over perimeter", () => {
  const [region] = findRegions(bar(), { ...OPTIONS, unclipRatio: 1.6 });
  const margin = 1.6 * 60 * 12 / (2 * (60 + 12));
  assert.equal(region!.width, 60 + 2 * margin);
  assert.equal(region!.height, 12 + 2 * margin);
});

Deno.test("findRegions() ignores specks, faint patches and NaN", () => {
  assert.deepEqual(findRegions(bar({ length: 2, thickness: 2 }), OPTIONS), []);
  assert.deepEqual(findRegions(bar({ level: 0.4 }), OPTIONS), []);
  assert.deepEqual(findRegions(bar({ level: 0.2 }), OPTIONS), []);
  assert.deepEqual(findRegions(bar({ level: NaN }), OPTIONS), []);
});

Deno.test("findRegions() separates regions that do not touch, and joins those that touch at a corner", () => {
  const map = bar({ length: 20, thickness: 10 });
  for (let y = 0; y < 10; y++) map.data.fill(1, y * 120, y * 120 + 30);
  assert.equal(findRegions(map, OPTIONS).length, 2);
  const corners: ProbabilityMap = { width: 20, height: 20, data: new Float32Array(400) };
  for (let y = 0; y < 20; y++) {
    corners.data.fill(1, y * 20 + (y < 10 ? 0 : 10), y * 20 + (y < 10 ? 10 : 20));
  }
  assert.equal(findRegions(corners, { ...OPTIONS, boxThreshold: 0.4 }).length, 1);
});

Deno.test("findRegions() survives a map full of text, and one full of specks", () => {
  const [width, height] = [960, 960];
  const full = { width, height, data: new Float32Array(width * height).fill(1) };
  assert.equal(findRegions(full, OPTIONS)[0]!.width, width);
  const specks = full.data.map((_, at) => Number(at % 2 === 0 && Math.floor(at / width) % 2 === 0));
  assert.deepEqual(findRegions({ width, height, data: specks }, OPTIONS), []);
});

Deno.test("findRegions() ignores a bump in few columns of a horizontal line", () => {
  const map = bar({ width: 240, length: 200 });
  const withBump = { ...map, data: map.data.slice() };
  for (let y = 24; y < 34; y++) withBump.data.fill(0.9, y * 240 + 100, y * 240 + 106);
  const [plain] = findRegions(map, OPTIONS);
  const [bumpy] = findRegions(withBump, OPTIONS);
  assert.deepEqual(bumpy!, plain!);
});
