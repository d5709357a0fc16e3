import type { DecoderLimits, StepBatch } from "../decoder/decoder.ts";
import type { ScheduledStep } from "./scheduler.ts";

/** Packs scheduled steps for the decoder into arrays that are allocated once, for the largest step. */
export class StepBuilder {
  readonly #tokenIds: Int32Array;
  readonly #positions: Int32Array;
  readonly #queryStarts: Int32Array;
  readonly #kvLengths: Int32Array;
  readonly #blockTables: Int32Array;
  readonly #maxBlocksPerSequence: number;

  constructor(limits: DecoderLimits) {
    const { contextLength, numBlocks, blockSize, maxBatchTokens, maxSequences } = limits;
    this.#maxBlocksPerSequence = Math.min(Math.ceil(contextLength / blockSize), numBlocks);
    this.#tokenIds = new Int32Array(maxBatchTokens);
    this.#positions = new Int32Array(maxBatchTokens);
    this.#queryStarts = new Int32Array(maxSequences + 1);
    this.#kvLengths = new Int32Array(maxSequences);
    this.#blockTables = new Int32Array(maxSequences * this.#maxBlocksPerSequence);
  }

  /** @returns the step as the decoder takes it, valid until the next call. */
  build(step: ScheduledStep): StepBatch {
    let numTokens = 0;
    const sequences = step.scheduled.map(({ sequence, numTokens: count, samples }, row) => {
      const end = sequence.numComputed + count;
      this.#queryStarts[row] = numTokens;
      this.#kvLengths[row] = end;
      this.#blockTables.set(sequence.blockIds.view(), row * this.#maxBlocksPerSequence);
      this.#tokenIds.set(sequence.tokens.view(sequence.numComputed, end), numTokens);
      for (let position = sequence.numComputed; position < end; position++) {
        this.#positions[numTokens++] = position;
      }
      return { sequenceId: sequence.id, sample: samples ? sequence.sampling : undefined };
    });
    this.#queryStarts[sequences.length] = numTokens;
    return {
      sequences,
      numTokens,
      tokenIds: this.#tokenIds,
      positions: this.#positions,
      queryStarts: this.#queryStarts,
      kvLengths: this.#kvLengths,
      blockTables: this.#blockTables,
      maxBlocksPerSequence: this.#maxBlocksPerSequence,
    };
  }
}
