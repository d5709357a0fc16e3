/**
 * The input of one step of the decoder, and its result.
 *
 * @module
 */
import type {
  DecoderLimits,
  EmbeddingSpan,
  SampledToken,
  SampleRow,
  StepBatch,
  StepSequence,
} from "../decoder/decoder.ts";
import type { Sequence } from "./sequence.ts";
import { mostBlocks } from "./length_limits.ts";

/** The part of one sequence in a step. */
export interface ScheduledSequence {
  readonly sequence: Sequence;
  /** Tokens to compute, from `sequence.numComputed` on; at least 1. */
  readonly numTokens: number;
  /** Whether the sequence's last token is among them, so that a new one is sampled. */
  readonly samples: boolean;
  /** Rows that score tokens of the prompt, before the row that samples; none if absent. */
  readonly scored?: readonly SampleRow[] | undefined;
  /**
   * The slot in which the state after some of the tokens is saved. No sequence or snapshot owns the slot until the step
   * is committed.
   */
  readonly savedState?: StepSequence["savedState"];
}

/** The contents of a step: sequences in order of arrival, so that next tokens come before prompts. */
export interface ScheduledStep {
  readonly scheduled: readonly ScheduledSequence[];
  readonly numTokens: number;
  /** How many of the tokens are next tokens of completions; the others are read from prompts. */
  readonly numNextTokens: number;
  /** Whether it is a prefill step, which only reads prompts and is suspended for decode steps of other sequences. */
  readonly isApart?: boolean;
  /** State slots that are copied before the step. */
  readonly stateCopies?: StepBatch["stateCopies"];
}

/** A new token, or a scored token of the prompt, and its sequence. */
export interface CommittedToken<Token extends SampledToken = SampledToken> {
  readonly sequence: Sequence;
  readonly token: Token;
  /** Whether it is a token of the prompt, with its log-probability. */
  readonly isScored?: boolean;
}

/** Packs scheduled steps into arrays for the decoder, which are allocated once for the largest step. */
export class StepBuilder {
  readonly #tokenIds: Int32Array;
  readonly #positions: Int32Array;
  readonly #completionPositions: Int32Array;
  readonly #sections: readonly [Int32Array, Int32Array, Int32Array];
  readonly #queryStarts: Int32Array;
  readonly #kvLengths: Int32Array;
  readonly #blockTables: Int32Array;
  readonly #windowTables: readonly Int32Array[] | undefined;
  readonly #stateSlots: Int32Array | undefined;
  readonly #anglePositions: Int32Array | undefined;
  readonly #longFrom: number;
  readonly #maxBlocksPerSequence: number;

  constructor(limits: DecoderLimits) {
    const { contextLength, blockSize, maxBatchTokens, maxSequences } = limits;
    this.#maxBlocksPerSequence = Math.min(
      Math.ceil(contextLength / blockSize),
      mostBlocks(limits),
    );
    this.#longFrom = limits.longFrom ?? 0;
    this.#anglePositions = limits.longFrom ? new Int32Array(maxBatchTokens) : undefined;
    this.#stateSlots = limits.numStateSlots ? new Int32Array(maxSequences) : undefined;
    const perToken = () => new Int32Array(maxBatchTokens);
    this.#tokenIds = perToken();
    this.#positions = perToken();
    this.#completionPositions = perToken();
    this.#sections = [perToken(), perToken(), perToken()];
    this.#queryStarts = new Int32Array(maxSequences + 1);
    this.#kvLengths = new Int32Array(maxSequences);
    const table = () => new Int32Array(maxSequences * this.#maxBlocksPerSequence);
    this.#blockTables = table();
    this.#windowTables = limits.windows?.map(table);
  }

  /** Packs a step. @returns the decoder's input, valid until the next call. */
  build(step: Pick<ScheduledStep, "scheduled" | "stateCopies">): StepBatch {
    let numTokens = 0;
    const embeddings: EmbeddingSpan[] = [];
    const sequences = step.scheduled.map((scheduled, row) => {
      const { sequence, numTokens: count, samples, scored, savedState } = scheduled;
      const start = sequence.numComputed;
      const end = start + count;
      this.#queryStarts[row] = numTokens;
      this.#kvLengths[row] = end;
      if (this.#stateSlots) this.#stateSlots[row] = sequence.stateSlot!;
      const firstEntry = row * this.#maxBlocksPerSequence;
      this.#blockTables.set(sequence.blockIds.view(), firstEntry);
      this.#windowTables?.forEach((table, i) =>
        table.set(sequence.windowTables[i]!.blockIds.view(), firstEntry)
      );
      this.#tokenIds.set(sequence.tokens.view(start, end), numTokens);
      embeddings.push(...listSpans(sequence, { start, end, firstToken: numTokens }));
      const firstRow = sequence.isLong ? this.#longFrom : 0;
      for (let position = start; position < end; position++) {
        if (this.#anglePositions) this.#anglePositions[numTokens] = firstRow + position;
        this.#completionPositions[numTokens] = position - sequence.numPromptTokens + 1;
        this.#positions[numTokens++] = position;
      }
      const { id, encoderInput, sampling } = sequence;
      const rows = { sample: samples ? sampling : undefined, ...(scored && { scored }) };
      const isDecoding = samples && count === 1 && start >= sequence.numPromptTokens;
      return { sequenceId: id, isDecoding, encoderInput, ...rows, ...savedState && { savedState } };
    });
    this.#queryStarts[sequences.length] = numTokens;
    return {
      sequences,
      numTokens,
      tokenIds: this.#tokenIds,
      positions: this.#positions,
      ...this.#anglePositions && { anglePositions: this.#anglePositions },
      completionPositions: this.#completionPositions,
      sectionPositions: this.#buildSections(step),
      embeddings: embeddings.length > 0 ? embeddings : undefined,
      queryStarts: this.#queryStarts,
      kvLengths: this.#kvLengths,
      blockTables: this.#blockTables,
      ...this.#windowTables && { windowTables: this.#windowTables },
      maxBlocksPerSequence: this.#maxBlocksPerSequence,
      ...this.#stateSlots && { stateSlots: this.#stateSlots, stateCopies: step.stateCopies },
    };
  }

  #buildSections({ scheduled }: Pick<ScheduledStep, "scheduled">): StepBatch["sectionPositions"] {
    if (scheduled.every(({ sequence }) => sequence.sectionPositions === undefined)) {
      return undefined;
    }
    this.#sections.forEach((section, scale) => {
      let token = 0;
      for (const { sequence, numTokens } of scheduled) {
        const { sectionPositions, numComputed } = sequence;
        const prompt = sectionPositions?.prompt[scale];
        const offset = sectionPositions?.offset ?? 0;
        for (let index = numComputed; index < numComputed + numTokens; index++) {
          section[token++] = prompt?.[index] ?? index + offset;
        }
      }
    });
    return this.#sections;
  }
}

/** Lists the media in tokens `start` to `end` of a sequence. Token `start` is token `firstToken` of the step. */
function listSpans(
  { id, media }: Sequence,
  { start, end, firstToken }: { start: number; end: number; firstToken: number },
): EmbeddingSpan[] {
  return media.flatMap((span) => {
    const from = Math.max(start, span.start);
    const to = Math.min(end, span.end);
    if (span.source === undefined || from >= to) return [];
    return [{
      sequenceId: id,
      firstToken: firstToken + from - start,
      numTokens: to - from,
      source: span.source,
      firstRow: (span.firstRow ?? 0) + from - span.start,
    }];
  });
}
