/**
 * Random packed steps over a paged cache, with NaN in every slot that no kernel may read, and attention in float64.
 *
 * @module
 */
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { makeNormal } from "./exact_sampling.ts";

/** A sequence: the number of its new tokens, and of all keys that they see, including their own. */
export interface CaseSequence {
  readonly queries: number;
  readonly keys: number;
}

/** Options of a case in addition to the attention shape. */
export interface CaseOptions {
  readonly window?: number;
  readonly softcap?: number;
  readonly hasSinks?: boolean;
  readonly hasSlopes?: boolean;
  /** Makes some queries and keys a hundred times as large. */
  readonly hasOutliers?: boolean;
  readonly seed?: number;
}

/** A step and its tensors. */
export interface PagedCase {
  readonly shape: AttentionShape;
  readonly step: PackedStep;
  readonly numBlocks: number;
  readonly q: Float32Array;
  readonly kCache: Float32Array;
  readonly vCache: Float32Array;
  readonly sinks: Float32Array;
  readonly slopes: Float32Array;
}

/** Makes a step whose sequences use the pool's blocks in random order. Some blocks stay unused. */
export function makeStep(
  sequences: readonly CaseSequence[],
  blockSize: number,
  { seed = 1, spareBlocks = 3 } = {},
): { step: PackedStep; numBlocks: number } {
  const random = makeNormal(seed);
  const makeBlocks = sequences.map(({ keys }) => Math.ceil(keys / blockSize));
  const used = makeBlocks.reduce((sum, blocks) => sum + blocks, 0);
  const numBlocks = used + spareBlocks;
  const pool = Array.from({ length: numBlocks }, (_, block) => ({ block, at: random() }))
    .sort((a, b) => a.at - b.at).map(({ block }) => block);
  const maxBlocksPerSequence = Math.max(...makeBlocks) + 1;
  const numTokens = sequences.reduce((sum, { queries }) => sum + queries, 0);
  const step = {
    sequences,
    numTokens,
    positions: new Int32Array(numTokens + 2),
    queryStarts: new Int32Array(sequences.length + 1),
    kvLengths: Int32Array.from(sequences, ({ keys }) => keys),
    // -1 means no block: using it is an error.
    blockTables: new Int32Array(sequences.length * maxBlocksPerSequence).fill(-1),
    maxBlocksPerSequence,
  };
  let token = 0;
  sequences.forEach(({ queries, keys }, s) => {
    for (let i = 0; i < queries; i++) step.positions[token++] = keys - queries + i;
    step.queryStarts[s + 1] = token;
    const row = s * maxBlocksPerSequence;
    for (let b = 0; b < makeBlocks[s]!; b++) step.blockTables[row + b] = pool.pop()!;
  });
  return { step, numBlocks };
}

/** Makes a case with normally distributed queries, keys and values, rounded to the shape's type. */
export function makeCase(
  shape: AttentionShape,
  sequences: readonly CaseSequence[],
  options: CaseOptions = {},
): PagedCase {
  const { step, numBlocks } = makeStep(sequences, shape.blockSize, { seed: options.seed ?? 1 });
  const normal = makeNormal(options.seed ?? 1);
  const round = shape.elem === "f16" ? Math.f16round : Math.fround;
  const next = () => {
    const value = normal();
    return round(options.hasOutliers && value > 2.5 ? value * 100 : value);
  };
  const q = new Float32Array(step.numTokens * shape.heads * shape.headSize).map(next);
  const cacheSize = numBlocks * shape.kvHeads * shape.blockSize * shape.headSize;
  const kCache = new Float32Array(cacheSize).fill(NaN);
  const vCache = new Float32Array(cacheSize).fill(NaN);
  for (let s = 0; s < sequences.length; s++) {
    for (let position = 0; position < sequences[s]!.keys; position++) {
      for (let head = 0; head < shape.kvHeads; head++) {
        const at = cacheAt(shape, step, s, position, head);
        for (let d = 0; d < shape.headSize; d++) {
          kCache[at + d] = next();
          vCache[at + d] = round(normal());
        }
      }
    }
  }
  const sinks = new Float32Array(shape.heads).map(() => normal() * 2);
  const slopes = makeSlopes(shape.heads);
  return { shape, step, numBlocks, q, kCache, vCache, sinks, slopes };
}

/** A slope for each head, as in ALiBi's paper. */
export function makeSlopes(heads: number): Float32Array {
  return Float32Array.from({ length: heads }, (_, head) => 2 ** (-8 * (head + 1) / heads));
}

/** Finds the first element of a key or value in its cache. */
export function cacheAt(
  { kvHeads, blockSize, headSize }: AttentionShape,
  step: PackedStep,
  s: number,
  position: number,
  head: number,
): number {
  const table = s * step.maxBlocksPerSequence + Math.floor(position / blockSize);
  const block = step.blockTables[table]!;
  return ((block * kvHeads + head) * blockSize + position % blockSize) * headSize;
}

/** Computes attention by its formula, in float64. */
export function attendExactly(
  { shape, step, q, kCache, vCache, sinks, slopes }: PagedCase,
  scale: number,
  options: CaseOptions,
): Float64Array {
  const { heads, kvHeads, headSize } = shape;
  const { window = 0, softcap = 0 } = options;
  const out = new Float64Array(step.numTokens * heads * headSize);
  for (let s = 0; s < step.sequences.length; s++) {
    for (let token = step.queryStarts[s]!; token < step.queryStarts[s + 1]!; token++) {
      const position = step.positions[token]!;
      const first = window > 0 ? Math.max(0, position - window + 1) : 0;
      for (let head = 0; head < heads; head++) {
        const kvHead = Math.floor(head / (heads / kvHeads));
        const at = (token * heads + head) * headSize;
        const scores = new Float64Array(position - first + 1);
        for (let j = first; j <= position; j++) {
          const key = cacheAt(shape, step, s, j, kvHead);
          let score = 0;
          for (let d = 0; d < headSize; d++) score += q[at + d]! * kCache[key + d]!;
          score *= scale;
          scores[j - first] = softcap > 0 ? softcap * Math.tanh(score / softcap) : score;
          if (options.hasSlopes) scores[j - first]! += slopes[head]! * (j - position);
        }
        let largest = scores.reduce((a, b) => Math.max(a, b));
        if (options.hasSinks) largest = Math.max(largest, sinks[head]!);
        let total = options.hasSinks ? Math.exp(sinks[head]! - largest) : 0;
        for (let j = first; j <= position; j++) {
          const weight = Math.exp(scores[j - first]! - largest);
          total += weight;
          const value = cacheAt(shape, step, s, j, kvHead);
          for (let d = 0; d < headSize; d++) out[at + d]! += weight * vCache[value + d]!;
        }
        for (let d = 0; d < headSize; d++) out[at + d]! /= total;
      }
    }
  }
  return out;
}
