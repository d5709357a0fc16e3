/**
 * Aligns texts with the encoder's output: each text runs through the split decoder, and the attention weights of its
 * alignment heads give the alignment.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import type { CrossAlignment, NodeHeads } from "../device/encoder_attention.ts";
import type { StepBatch } from "./decoder.ts";
import type { EncoderDecoderAttention } from "./encoder_decoder_attention.ts";
import type { PagedDecoder } from "./paged_decoder.ts";

/** What an aligner needs. */
interface TextAlignerOptions {
  readonly backend: Backend;
  readonly decoder: PagedDecoder;
  readonly attention: EncoderDecoderAttention;
  /** First of the decoder's blocks that are reserved for the aligner: enough for one sequence. */
  readonly firstBlock: number;
  readonly blocksPerSequence: number;
}

/** A text, and the slot of its encoder input. */
interface SlotText {
  readonly slot: number;
  readonly tokens: readonly number[];
  readonly numPositions: number;
  readonly nodes: readonly NodeHeads[];
}

export class TextAligner {
  readonly #options: TextAlignerOptions;
  /** Created for the first text with these alignment heads, since most decoders never align. */
  readonly #alignments = new Map<readonly NodeHeads[], CrossAlignment>();

  constructor(options: TextAlignerOptions) {
    this.#options = options;
  }

  /**
   * Aligns a text.
   *
   * @returns f32 `[tokens, numPositions]`: how much more than other tokens each token attends to each position.
   */
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
        // The text is run without wanting any rows.
        for await (const _ of decoder.forward(step));
      }
    } finally {
      attention.captureQueries();
    }
    return await backend.read(alignment.align({ slot, numTokens: tokens.length, numPositions }));
  }

  /** Frees the aligner's memory. */
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
