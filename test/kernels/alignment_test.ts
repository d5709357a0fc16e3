import assert from "node:assert/strict";
import { addAlignment, Alignment, type AlignmentLayer } from "../../kernels/alignment/alignment.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import type { Elem } from "../../src/gpu/kernel.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { kernelTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { upload } from "./tensors.ts";

/** Computes an alignment of one head whose token `t` gives key `k` the weight `weights[t][k]`. */
function alignWeights(weights: readonly (readonly number[])[], share = 1): number[][] {
  const [numTokens, numKeys] = [weights.length, weights[0]!.length];
  const result = new Float32Array(numTokens * numKeys);
  addAlignment(result, {
    // A token's query selects the token's element of each key: the logarithm of the wanted weight.
    queries: Float32Array.from(
      { length: numTokens ** 2 },
      (_, i) => i % (numTokens + 1) === 0 ? 1 : 0,
    ),
    keys: Float32Array.from(
      { length: numKeys * numTokens },
      (_, i) => Math.log(weights[i % numTokens]![Math.floor(i / numTokens)]!),
    ),
    ...{ numTokens, numKeys, headSize: numTokens, scale: 1, share },
  });
  return weights.map((_, t) => [...result.subarray(t * numKeys, (t + 1) * numKeys)]);
}

Deno.test("addAlignment() scales each key's weights over the tokens to mean 0 and standard deviation 1", () => {
  // With two different weights, each is one standard deviation from their mean.
  assertClose(
    alignWeights([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]).flat(),
    [-1, 0, 1, 1, 0, -1],
    { abs: 1e-5, rel: 0 },
  );
  const third = 1 / 3;
  assertClose(
    alignWeights([[third, third, third], [third, third, third], [0.6, 0.2, 0.2]]).flat(),
    [-1, 1, 1, -1, 1, 1, 2, -2, -2].map((x) => x / Math.SQRT2),
    { abs: 1e-5, rel: 0 },
  );
});

Deno.test("addAlignment() takes the median over seven keys, mirrored at both ends, and multiplies it by the share", () => {
  // The first token has the larger weight at odd keys, and the smaller one at even keys.
  const odd = Array.from({ length: 9 }, (_, k) => (k % 2 === 1 ? 0.2 : 0.04));
  const even = Array.from({ length: 9 }, (_, k) => (k % 2 === 0 ? 0.168 : 0.04));
  // Around key 0, keys -3 … 3 are mirrored to 3 2 1 0 1 2 3: four are odd, so the median is 1. Around key 1, only three
  // of 2 1 0 1 2 3 4 are odd, so the median is -1.
  assertClose(
    alignWeights([odd, even], 0.5)[0]!,
    [1, -1, 1, -1, 1, -1, 1, -1, 1].map((x) => x / 2),
    { abs: 1e-5, rel: 0 },
  );
});

Deno.test("addAlignment() adds nothing for keys to which all tokens attend equally", () => {
  const result = new Float32Array([1, 2, 3, 4]);
  addAlignment(result, {
    queries: new Float32Array(4),
    keys: new Float32Array(4),
    ...{ numTokens: 2, numKeys: 2, headSize: 2, scale: 1, share: 1 },
  });
  assert.deepEqual([...result], [1, 2, 3, 4]);
});

const [HEADS, KV_HEADS, HEAD_SIZE, BLOCK_SIZE] = [6, 3, 20, 16];
const NUM_BLOCKS = 10;

interface Case {
  readonly numTokens: number;
  readonly numKeys: number;
  readonly firstBlock: number;
}

/** Makes two layers with queries inside wider rows. Unused cache slots contain NaN. */
function makeLayers(gpu: GpuContext, elem: Elem, { numTokens, numKeys, firstBlock }: Case) {
  const normal = makeNormal(numTokens);
  const round = (x: number) => elem === "f16" ? Math.f16round(x) : Math.fround(x);
  return [[0, 5, 2], [4]].map((heads) => {
    const q = { stride: HEADS * HEAD_SIZE + 8, offset: 4 };
    const queries = new Float32Array(numTokens * q.stride).map(() => round(normal()));
    const cache = new Float32Array(NUM_BLOCKS * KV_HEADS * BLOCK_SIZE * HEAD_SIZE).fill(NaN);
    const getPlace = (key: number, head: number) => {
      const block = firstBlock + Math.floor(key / BLOCK_SIZE);
      return ((block * KV_HEADS + head) * BLOCK_SIZE + key % BLOCK_SIZE) * HEAD_SIZE;
    };
    for (let key = 0; key < numKeys; key++) {
      for (let head = 0; head < KV_HEADS; head++) {
        const at = getPlace(key, head);
        for (let d = 0; d < HEAD_SIZE; d++) cache[at + d] = round(normal());
      }
    }
    const shape = {
      ...{ heads: HEADS, kvHeads: KV_HEADS, headSize: HEAD_SIZE },
      ...{ blockSize: BLOCK_SIZE, elem },
    };
    const layer: AlignmentLayer = { shape, q, scale: 0.4, heads };
    const parts = heads.map((head) => ({
      queries: Float32Array.from({ length: numTokens * HEAD_SIZE }, (_, i) => {
        const token = Math.floor(i / HEAD_SIZE);
        return queries[token * q.stride + q.offset + head * HEAD_SIZE + i % HEAD_SIZE]!;
      }),
      keys: Float32Array.from({ length: numKeys * HEAD_SIZE }, (_, i) => {
        const group = Math.floor(head / (HEADS / KV_HEADS));
        return cache[getPlace(Math.floor(i / HEAD_SIZE), group) + i % HEAD_SIZE]!;
      }),
    }));
    const buffers = { q: upload(gpu, queries, elem), kCache: upload(gpu, cache, elem) };
    return { layer, parts, buffers };
  });
}

for (const elem of ["f32", "f16"] as const) {
  kernelTest(
    `Alignment equals its reference in ${elem}, for five texts in succession`,
    async (gpu) => {
      const cases: Case[] = [
        { numTokens: 7, numKeys: 131, firstBlock: 1 },
        { numTokens: 1, numKeys: 3, firstBlock: 9 },
        { numTokens: 12, numKeys: 4, firstBlock: 0 },
        // So few keys have no median of seven.
        { numTokens: 5, numKeys: 3, firstBlock: 8 },
        { numTokens: 3, numKeys: 64, firstBlock: 6 },
      ];
      const made = cases.map((each) => makeLayers(gpu, elem, each));
      const kernel = new Alignment(gpu, made[0]!.map(({ layer }) => layer), {
        maxTokens: 12,
        maxKeys: 140,
      });
      const readback = await Readback.create(gpu, { maxBytes: 4 * 12 * 140 });
      for (const [i, text] of cases.entries()) {
        const { numTokens, numKeys } = text;
        const want = new Float32Array(numTokens * numKeys);
        for (const { layer, parts } of made[i]!) {
          for (const part of parts) {
            const sizes = { numTokens, numKeys, headSize: HEAD_SIZE };
            addAlignment(want, { ...part, ...sizes, scale: layer.scale, share: 1 / 4 });
          }
        }
        const encoder = gpu.device.createCommandEncoder();
        kernel.encode(encoder, text, made[i]!.map(({ buffers }) => buffers));
        const range = { buffer: kernel.result, offset: 0, size: 4 * want.length };
        const got = new Float32Array((await readback.read(encoder, [range])).buffer);
        assertClose(got, want, { abs: 1e-4, rel: 1e-4 });
      }
      kernel.dispose();
      readback.dispose();
      for (const { buffers } of made.flat()) {
        buffers.q.destroy();
        buffers.kCache.destroy();
      }
    },
  );
}
