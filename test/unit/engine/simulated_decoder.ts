/**
 * A decoder without a model. It has a KV pool like a real one, accessed only through the block tables, and a next token
 * that depends on every slot it reads: a wrong table, or a block that is reused too early or shared by mistake, gives
 * another completion. If it has slots for states, each contains the tokens that it has seen: a state that does not
 * match the previous tokens is an error.
 *
 * @module
 */
import assert from "node:assert/strict";
import type {
  DecoderLimits,
  SampledToken,
  SampleRow,
  StepBatch,
} from "../../../src/decoder/decoder.ts";

const EMPTY = -1;

export { GREEDY } from "../../../src/decoder/decoder.ts";

/** A small vocabulary, so that completions share prefixes by chance. */
export const VOCAB_SIZE = 12;

/** Makes default limits with changes. */
export function makeLimits(changes: Partial<DecoderLimits> = {}): DecoderLimits {
  return {
    contextLength: 256,
    vocabSize: VOCAB_SIZE,
    maxSequences: 8,
    maxBatchTokens: 64,
    numBlocks: 64,
    blockSize: 4,
    sharesBlocks: true,
    ...changes,
  };
}

/** The slots of a pool, accessed only through its tables. */
interface Pool {
  /** The number of visible tokens. */
  readonly window: number;
  tokens: Int32Array;
  positions: Int32Array;
}

export class SimulatedDecoder {
  readonly #blockSize: number;
  /** The main pool, then those of the windows. */
  readonly #pools: readonly Pool[];
  readonly #states: (readonly number[])[];
  /** Offset of the angle row from the position, for the key in each slot. */
  readonly #shifts = new Map<number, number>();

  constructor(limits: DecoderLimits) {
    this.#blockSize = limits.blockSize;
    const main = { window: Infinity, numBlocks: limits.numBlocks };
    this.#pools = [main, ...limits.windows ?? []].map(({ window, numBlocks }) => {
      const slots = () => new Int32Array(numBlocks * limits.blockSize).fill(EMPTY);
      return { window, tokens: slots(), positions: slots() };
    });
    this.#states = Array.from({ length: limits.numStateSlots ?? 0 }, () => [EMPTY]);
  }

  /** Copies states before a step. */
  begin({ stateCopies = [] }: StepBatch): void {
    for (const { from, to } of stateCopies) this.#states[to] = this.#states[from]!;
  }

  run(batch: StepBatch): SampledToken[] {
    this.begin(batch);
    return this.compute(batch);
  }

  /** Runs a step after `begin`. */
  compute(batch: StepBatch): SampledToken[] {
    for (let row = 0; row < batch.sequences.length; row++) {
      this.#write(batch, row);
      if (batch.stateSlots) this.#advance(batch, row);
    }
    const sampled: SampledToken[] = [];
    for (const [row, { sample, scored = [] }] of batch.sequences.entries()) {
      const context = this.read(batch, row);
      const numAhead = context.length - scored.length - (sample === undefined ? 0 : 1);
      sampled.push(...scored.map((each, i) => makeScore(context.slice(0, numAhead + i + 1), each)));
      if (sample !== undefined) sampled.push(nextToken(context, sample));
    }
    return sampled;
  }

  /** Changes the number of blocks of a pool; removed blocks are lost. */
  resize(numBlocks: number, pool = 0): void {
    const resized = (from: Int32Array) => {
      const to = new Int32Array(numBlocks * this.#blockSize).fill(EMPTY);
      to.set(from.subarray(0, to.length));
      return to;
    };
    const { tokens, positions } = this.#pools[pool]!;
    Object.assign(this.#pools[pool]!, { tokens: resized(tokens), positions: resized(positions) });
  }

  /** Reads the tokens that a sequence of the batch sees through its block tables. */
  read(batch: StepBatch, row: number): number[] {
    const end = batch.kvLengths[row]!;
    const first = batch.positions[batch.queryStarts[row]!]!;
    const [all, ...last] = this.#pools.map(({ window, tokens, positions }, pool) => {
      const start = Math.max(0, first - window + 1);
      return Array.from({ length: end - start }, (_, i) => {
        const slot = this.#getSlot(batch, row, { position: start + i, pool });
        if (positions[slot] !== start + i) assert.fail("a slot holds another position");
        return tokens[slot]!;
      });
    }) as [number[], ...number[][]];
    for (const seen of last) {
      assert.deepEqual(seen, all.slice(-seen.length), "a window holds other tokens");
    }
    const shift = makeShift(batch, batch.queryStarts[row]!);
    for (let position = 0; position < end; position++) {
      const slot = this.#getSlot(batch, row, { position, pool: 0 });
      if (this.#shifts.get(slot) !== shift) {
        assert.fail("a key was rotated with the table for other lengths");
      }
    }
    return all;
  }

  #write(batch: StepBatch, row: number): void {
    for (let i = batch.queryStarts[row]!; i < batch.queryStarts[row + 1]!; i++) {
      const position = batch.positions[i]!;
      for (const [pool, { tokens, positions }] of this.#pools.entries()) {
        const slot = this.#getSlot(batch, row, { position, pool });
        tokens[slot] = batch.tokenIds[i]!;
        positions[slot] = position;
        if (pool === 0) this.#shifts.set(slot, makeShift(batch, i));
      }
    }
  }

  #advance({ stateSlots, queryStarts, positions, ...batch }: StepBatch, row: number): void {
    const [first, end] = [queryStarts[row]!, queryStarts[row + 1]!];
    const slot = stateSlots![row]!;
    assert(!stateSlots!.subarray(0, row).includes(slot), "two sequences share a state");
    const before = positions[first] === 0 ? [] : this.#states[slot]!;
    const state = [...before, ...batch.tokenIds.subarray(first, end)];
    assert.deepEqual(
      state,
      this.read({ ...batch, queryStarts, positions }, row),
      "a state has seen other tokens",
    );
    this.#states[slot] = state;
    const { savedState } = batch.sequences[row]!;
    if (savedState === undefined) return;
    assert(
      !stateSlots!.subarray(0, batch.sequences.length).includes(savedState.slot),
      "a state is saved in a slot in use",
    );
    this.#states[savedState.slot] = state.slice(0, before.length + savedState.numTokens);
  }

  #getSlot(
    { blockTables, windowTables = [], maxBlocksPerSequence }: StepBatch,
    row: number,
    { position, pool }: { readonly position: number; readonly pool: number },
  ): number {
    const table = pool === 0 ? blockTables : windowTables[pool - 1]!;
    const entry = row * maxBlocksPerSequence + Math.floor(position / this.#blockSize);
    return table[entry]! * this.#blockSize + position % this.#blockSize;
  }
}

/** Computes the offset of a token's angle row from its position. */
export function makeShift({ anglePositions, positions }: StepBatch, token: number): number {
  return (anglePositions?.[token] ?? positions[token]!) - positions[token]!;
}

/** Computes the score of the row's requested token after `context`. */
export function makeScore(
  context: readonly number[],
  { adjustments }: Pick<SampleRow, "adjustments">,
): SampledToken {
  const tokenId = adjustments!.tokenIds[0]!;
  return { tokenId, logprob: -makeHash([...context, tokenId], 0), top: [] };
}

/** Computes the next token after `context`, the same alone and in any batch. */
export function nextToken(
  context: readonly number[],
  sample: Pick<SampleRow, "params" | "tokenIndex">,
): SampledToken {
  const seed = sample.params.seed ^ Math.imul(sample.tokenIndex, 0x9e3779b1);
  return { tokenId: makeHash(context, seed) % VOCAB_SIZE, logprob: 0, top: [] };
}

function makeHash(tokens: readonly number[], seed: number): number {
  let hash = seed;
  for (const tokenId of tokens) {
    hash = Math.imul(hash ^ tokenId, 0x01000193);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}
