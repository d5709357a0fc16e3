/**
 * How texts lie along what their rows of a cut decoder attend to: each text runs through the decoder as it stands, and
 * of what some heads look at an alignment is made.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import type { CrossAlignment, SiteHeads } from "../../backend/cross_alignment.ts";
import type { EncoderDecoderAttention } from "../../decoder/encoder_decoder_attention.ts";
import type { PagedDecoder } from "../../decoder/paged_decoder.ts";
import { stepOfRows } from "./row_step.ts";

/** What it works with. */
export interface TextAlignerOptions {
  readonly backend: Backend;
  readonly decoder: PagedDecoder;
  readonly attention: EncoderDecoderAttention;
  /** Heads that look at where in the sound each token is spoken. */
  readonly sites: readonly SiteHeads[];
  /** Of the decoder's cache. */
  readonly blocksPerRow: number;
}

/** A text and what it lies along. */
export interface RowText {
  /** The row's; what the decoder knew of its tokens is lost. */
  readonly slot: number;
  /** All tokens, from the first on. */
  readonly tokens: readonly number[];
  /** Of the places that the row attends to, how many from the first on the text may lie along. */
  readonly numPlaces: number;
}

/** See the module. */
export class TextAligner {
  readonly #options: TextAlignerOptions;
  /** Made for the first text: most decoders never see one. */
  #alignment: CrossAlignment | undefined;

  constructor(options: TextAlignerOptions) {
    this.#options = options;
  }

  /** @returns f32 `[tokens, numPlaces]`: how much more than other tokens each looks at each place. */
  async align({ slot, tokens, numPlaces }: RowText): Promise<Float32Array> {
    const { backend, decoder, attention, sites, blocksPerRow } = this.#options;
    const { contextLength, maxBatchTokens } = decoder.limits;
    const alignment = this.#alignment ??= attention.openAlignment({
      sites,
      maxTokens: contextLength,
    });
    try {
      for (let first = 0; first < tokens.length; first += maxBatchTokens) {
        attention.takeQueries({ alignment, firstToken: first });
        const part = tokens.slice(first, first + maxBatchTokens);
        const row = { slot, tokens: part, position: first };
        await decoder.forward(stepOfRows([row], blocksPerRow, { isAsked: false }));
      }
    } finally {
      attention.takeQueries();
    }
    return await backend.read(alignment.align({ slot, numTokens: tokens.length, numPlaces }));
  }

  /** Frees its memory. */
  dispose(): void {
    this.#alignment?.dispose();
  }
}
