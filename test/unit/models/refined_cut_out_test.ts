import assert from "node:assert/strict";
import type { Pixels } from "../../../src/media/pixels.ts";
import { refineCutOut } from "../../../src/models/refined_cut_out.ts";

const SUBJECT = [220, 60, 40] as const;
const BEHIND = [30, 120, 210] as const;
const [WIDTH, HEIGHT] = [256, 64];
/** Where the subject ends, exactly. */
const EDGE = 131;

/** The subject left of the edge, and a mask whose edge is soft and a little off. */
function cutOutOf(maskEdge: number): Pixels {
  const data = new Uint8Array(4 * WIDTH * HEIGHT);
  for (let i = 0; i < WIDTH * HEIGHT; i++) {
    const x = i % WIDTH;
    const alpha = Math.min(1, Math.max(0, 0.5 - (x - maskEdge) / 16));
    data.set([...(x < EDGE ? SUBJECT : BEHIND), Math.round(255 * alpha)], 4 * i);
  }
  return { width: WIDTH, height: HEIGHT, channels: 4, data };
}

function alphaAt({ data }: Pixels, x: number): number {
  return data[4 * (32 * WIDTH + x) + 3]!;
}

Deno.test("refineCutOut() moves a soft edge to the picture's own", () => {
  for (const maskEdge of [EDGE - 4, EDGE, EDGE + 4]) {
    const cutOut = cutOutOf(maskEdge);
    refineCutOut(cutOut, { maskSide: 64 });
    assert.ok(alphaAt(cutOut, EDGE - 2) > 150, `${alphaAt(cutOut, EDGE - 2)}`);
    assert.ok(alphaAt(cutOut, EDGE + 1) < 110, `${alphaAt(cutOut, EDGE + 1)}`);
  }
});

Deno.test("refineCutOut() leaves alone what is certain", () => {
  const cutOut = cutOutOf(EDGE);
  const before = cutOut.data.slice();
  refineCutOut(cutOut, { maskSide: 64 });
  for (let at = 0; at < before.length; at += 4) {
    if (before[at + 3]! > 0 && before[at + 3]! < 255) continue;
    assert.deepEqual(cutOut.data.subarray(at, at + 4), before.subarray(at, at + 4));
  }
});

Deno.test("refineCutOut() takes the background's colour out of what is half transparent", () => {
  const cutOut = cutOutOf(EDGE);
  refineCutOut(cutOut, { maskSide: 64 });
  let numSeen = 0;
  for (let x = EDGE; x < EDGE + 8; x++) {
    const at = 4 * (32 * WIDTH + x);
    if (cutOut.data[at + 3]! < 16) continue;
    numSeen++;
    // It was the background's 210.
    assert.ok(cutOut.data[at + 2]! < 150, `${cutOut.data[at + 2]} at ${x}`);
  }
  assert.ok(numSeen > 0);
});

Deno.test("refineCutOut() makes nothing more opaque than it was", () => {
  const cutOut = cutOutOf(EDGE);
  const ownAlpha = new Uint8Array(WIDTH * HEIGHT).fill(255);
  for (let i = 0; i < ownAlpha.length; i++) {
    if (i % WIDTH < 125) continue;
    ownAlpha[i] = 90;
    cutOut.data[4 * i + 3] = Math.round(cutOut.data[4 * i + 3]! * 90 / 255);
  }
  refineCutOut(cutOut, { maskSide: 64, ownAlpha });
  for (let i = 0; i < ownAlpha.length; i++) assert.ok(cutOut.data[4 * i + 3]! <= ownAlpha[i]!);
});

Deno.test("refineCutOut() takes pictures of any size, also without a subject or a rim", () => {
  for (const [width, height] of [[1, 1], [1, 700], [900, 2], [3, 3]] as const) {
    for (const alpha of [0, 128, 255]) {
      const data = new Uint8Array(4 * width * height).fill(77);
      for (let i = 3; i < data.length; i += 4) data[i] = alpha;
      const cutOut: Pixels = { width, height, channels: 4, data };
      refineCutOut(cutOut, { maskSide: 256 });
      assert.ok(data.every((level, i) => Math.abs(level - (i % 4 === 3 ? alpha : 77)) <= 1));
    }
  }
});
