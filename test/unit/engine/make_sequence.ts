import { Sequence, type SequenceOptions } from "../../../src/engine/sequence.ts";
import { GREEDY } from "./simulated_decoder.ts";

let nextId = 1;

/** Makes a sequence with this prompt. */
export function makeSequence(
  promptTokens: readonly number[],
  options: Partial<SequenceOptions> = {},
): Sequence {
  return new Sequence({
    id: nextId++,
    requestId: 1,
    cacheScope: 0,
    promptTokens: Int32Array.from(promptTokens),
    maxLength: 1000,
    params: GREEDY,
    topLogprobs: 0,
    ...options,
  });
}

/** Tokens `first`, `first + 1`, … */
export function countFrom(first: number, length: number): number[] {
  return Array.from({ length }, (_, i) => first + i);
}
