import assert from "node:assert/strict";
import type { Pixels } from "../../../../src/media/pixels.ts";
import { refineCutOut } from "../../../../src/models/matting/refine_cut_out.ts";

const SUBJECT = [220, 60, 40] as const;
const BEHIND = [30, 120, 210] as const;
const [WIDTH, HEIGHT] = [256, 64];
/** The exact edge of the subject. */
const EDGE = 131;

/** An image with the subject left of the edge. */
function makeOriginal(): Pixels {
  const data = new Uint8Array(3 * WIDTH * HEIGHT);
  for (let i = 0; i < WIDTH * HEIGHT; i++) data.set(i % WIDTH < EDGE ? SUBJECT : BEHIND, 3 * i);
  return { width: WIDTH, height: HEIGHT, channels: 3, data };
}

/** The image cut out with a mask whose edge is soft and slightly displaced. */
function makeCutOut(maskEdge: number): Pixels {
  const { data: seen } = makeOriginal();
  const data = new Uint8Array(4 * WIDTH * HEIGHT);
  for (let i = 0; i < WIDTH * HEIGHT; i++) {
    const alpha = Math.min(1, Math.max(0, 0.5 - (i % WIDTH - maskEdge) / 16));
    if (alpha === 0) continue;
    data.set([...seen.subarray(3 * i, 3 * i + 3), Math.round(255 * alpha)], 4 * i);
  }
  return { width: WIDTH, height: HEIGHT, channels: 4, data };
}

const OPTIONS = { maskSide: 64, original: makeOriginal() };

function alphaAt({ data }: Pixels, x: number): number {
  return data[4 * (32 * WIDTH + x) + 3]!;
}

Deno.test("refineCutOut() moves a soft edge of the mask to the edge in the image", () => {
  for (const maskEdge of [EDGE - 4, EDGE, EDGE + 4]) {
    const cutOut = makeCutOut(maskEdge);
    refineCutOut(cutOut, OPTIONS);
    assert.ok(alphaAt(cutOut, EDGE - 2) > 150, `${alphaAt(cutOut, EDGE - 2)}`);
    assert.ok(alphaAt(cutOut, EDGE + 1) < 110, `${alphaAt(cutOut, EDGE + 1)}`);
  }
});

Deno.test("refineCutOut() does not change opaque and transparent pixels", () => {
  const cutOut = makeCutOut(EDGE);
  const before = cutOut.data.slice();
  refineCutOut(cutOut, OPTIONS);
  for (let at = 0; at < before.length; at += 4) {
    if (before[at + 3]! > 0 && before[at + 3]! < 255) continue;
    assert.deepEqual(cutOut.data.subarray(at, at + 4), before.subarray(at, at + 4));
  }
});

Deno.test("refineCutOut() removes the background's colour from translucent pixels", () => {
  const cutOut = makeCutOut(EDGE);
  refineCutOut(cutOut, OPTIONS);
  let numSeen = 0;
  for (let x = EDGE; x < EDGE + 8; x++) {
    const at = 4 * (32 * WIDTH + x);
    if (cutOut.data[at + 3]! < 16) continue;
    numSeen++;
    // The background's value is 210.
    assert.ok(cutOut.data[at + 2]! < 150, `${cutOut.data[at + 2]} at ${x}`);
  }
  assert.ok(numSeen > 0);
});

Deno.test("refineCutOut() makes no pixel more opaque than in the original", () => {
  const cutOut = makeCutOut(EDGE);
  const { width, height, data: seen } = makeOriginal();
  const data = new Uint8Array(4 * width * height);
  for (let i = 0; i < width * height; i++) {
    const own = i % width < 125 ? 255 : 90;
    data.set([...seen.subarray(3 * i, 3 * i + 3), own], 4 * i);
    cutOut.data[4 * i + 3] = Math.round(cutOut.data[4 * i + 3]! * own / 255);
  }
  const original: Pixels = { width, height, channels: 4, data };
  refineCutOut(cutOut, { maskSide: 64, original });
  for (let at = 3; at < data.length; at += 4) assert.ok(cutOut.data[at]! <= data[at]!);
});

Deno.test("refineCutOut() accepts images of any size, also without a subject or an edge", () => {
  for (const [width, height] of [[1, 1], [1, 700], [900, 2], [3, 3]] as const) {
    for (const alpha of [0, 128, 255]) {
      const data = new Uint8Array(4 * width * height).fill(77);
      for (let i = 3; i < data.length; i += 4) data[i] = alpha;
      const cutOut: Pixels = { width, height, channels: 4, data };
      refineCutOut(cutOut, { maskSide: 256, original: { ...cutOut, data: data.slice() } });
      assert.ok(data.every((level, i) => Math.abs(level - (i % 4 === 3 ? alpha : 77)) <= 1));
    }
  }
});
