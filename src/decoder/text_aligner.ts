/**
 * Aligns texts with the encoder's output: each text runs through the cut decoder, and its alignment heads' attention
 * weights give the alignment.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import type { CrossAlignment, NodeHeads } from "../device/cross_alignment.ts";
import type { StepBatch } from "./decoder.ts";
import type { EncoderDecoderAttention } from "./encoder_decoder_attention.ts";
import type { PagedDecoder } from "./paged_decoder.ts";

/** What it works with. */
interface TextAlignerOptions {
  readonly backend: Backend;
  readonly decoder: PagedDecoder;
  readonly attention: EncoderDecoderAttention;
  /** Blocks of the decoder's cache from this one on are its own: a sequence's. */
  readonly firstBlock: number;
  readonly blocksPerSequence: number;
}

/** A text and the slot of its encoder input. */
interface SlotText {
  readonly slot: number;
  readonly tokens: readonly number[];
  readonly numPositions: number;
  readonly nodes: readonly NodeHeads[];
}

export class TextAligner {
  readonly #options: TextAlignerOptions;
  /** Created at the first text with alignment heads: most decoders never align. */
  readonly #alignments = new Map<readonly NodeHeads[], CrossAlignment>();

  constructor(options: TextAlignerOptions) {
    this.#options = options;
  }

  /** @returns f32 `[tokens, numPositions]`: how much more than other tokens each attends to each position. */
  async align({ slot, tokens, numPositions, nodes }: SlotText): Promise<Float32Array> {
    const { backend, decoder, attention } = this.#options;
    const { contextLength, maxBatchTokens } = decoder.limits;
    const alignment = this.#alignments.get(nodes) ??
      attention.openAlignment({ nodes, maxTokens: contextLength });
    this.#alignments.set(nodes, alignment);
    try {
      for (let first = 0; first < tokens.length; first += maxBatchTokens) {
        attention.captureQueries({ alignment, firstToken: first });
        const step = this.#getStep(tokens.slice(first, first + maxBatchTokens), { first, slot });
        // No rows are wanted of it.
        for await (const _ of decoder.forward(step));
      }
    } finally {
      attention.captureQueries();
    }
    return await backend.read(alignment.align({ slot, numTokens: tokens.length, numPositions }));
  }

  /** Frees its memory. */
  dispose(): void {
    for (const alignment of this.#alignments.values()) alignment.dispose();
  }

  #getStep(
    tokens: readonly number[],
    { first, slot }: { readonly first: number; readonly slot: number },
  ): StepBatch {
    const { firstBlock, blocksPerSequence } = this.#options;
    return {
      sequences: [{ sequenceId: 0, encoderSlot: slot }],
      numTokens: tokens.length,
      tokenIds: Int32Array.from(tokens),
      positions: Int32Array.from(tokens, (_, i) => first + i),
      queryStarts: Int32Array.of(0, tokens.length),
      kvLengths: Int32Array.of(first + tokens.length),
      blockTables: Int32Array.from({ length: blocksPerSequence }, (_, i) => firstBlock + i),
      maxBlocksPerSequence: blocksPerSequence,
    };
  }
}
