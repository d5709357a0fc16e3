/**
 * The router on the CPU: chooses and weights the experts of each row, as `route.wgsl` does, and sorts rows by expert.
 *
 * @module
 */
import type { ExpertsParams } from "./experts_params.ts";

/** The chosen experts and their weights: `topK` per row, the most likely first. */
interface Routes {
  readonly experts: Uint32Array;
  readonly weights: Float32Array;
}

/**
 * Routes the rows `[first, first + numRows)` of `logits`.
 *
 * @param bias added to the probabilities when experts are chosen.
 */
export function routeRows(
  { experts, topK, logits: { stride, offset }, router }: ExpertsParams,
  logits: ArrayLike<number>,
  { first, numRows, bias }: {
    readonly first: number;
    readonly numRows: number;
    readonly bias?: Float32Array | undefined;
  },
): Routes {
  const { scores, normalizes, epsilon, scale, prefersLast } = router;
  const routes = {
    experts: new Uint32Array(numRows * topK),
    weights: new Float32Array(numRows * topK),
  };
  const probabilities = new Float64Array(experts);
  const keys = new Float64Array(experts);
  for (let row = 0; row < numRows; row++) {
    const start = (first + row) * stride + offset;
    let highest = -Infinity;
    for (let e = 0; e < experts; e++) highest = Math.max(highest, logits[start + e]!);
    let sum = 0;
    for (let e = 0; e < experts; e++) {
      const logit = logits[start + e]!;
      const value = scores === "softmax" ? Math.exp(logit - highest) : 1 / (1 + Math.exp(-logit));
      probabilities[e] = value;
      sum += value;
    }
    for (let e = 0; e < experts; e++) {
      if (scores === "softmax") probabilities[e]! /= sum;
      // Compared in f32, so that ties are the same as on a GPU.
      keys[e] = Math.fround(probabilities[e]! + (bias?.[e] ?? 0));
    }
    let mass = epsilon;
    for (let j = 0; j < topK; j++) {
      let best = -1;
      for (let e = 0; e < experts; e++) {
        const isBetter = best < 0 || keys[e]! > keys[best]! ||
          (prefersLast && keys[e]! === keys[best]!);
        if (isBetter) best = e;
      }
      keys[best] = -Infinity;
      mass += probabilities[best]!;
      routes.experts[row * topK + j] = best;
      routes.weights[row * topK + j] = probabilities[best]!;
    }
    for (let j = 0; j < topK; j++) {
      routes.weights[row * topK + j]! *= scale / (normalizes ? mass : 1);
    }
  }
  return routes;
}

/** The pairs (row, one of its experts), sorted by expert. */
interface ExpertOrder {
  readonly pairs: Uint32Array;
  /** Three words for each expert that has pairs: its number, the first of its pairs, and their end. */
  readonly items: Uint32Array;
}

/** Sorts pairs by expert, keeping the order within each expert. */
export function orderByExpert(experts: Uint32Array, numExperts: number): ExpertOrder {
  const ends = new Uint32Array(numExperts + 1);
  for (const expert of experts) ends[expert + 1]!++;
  for (let e = 0; e < numExperts; e++) ends[e + 1]! += ends[e]!;
  const items: number[] = [];
  for (let e = 0; e < numExperts; e++) {
    if (ends[e + 1]! > ends[e]!) items.push(e, ends[e]!, ends[e + 1]!);
  }
  const next = ends.slice();
  const pairs = new Uint32Array(experts.length);
  experts.forEach((expert, pair) => pairs[next[expert]!++] = pair);
  return { pairs, items: Uint32Array.from(items) };
}
