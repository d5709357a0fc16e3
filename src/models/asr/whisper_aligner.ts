/**
 * When the tokens of a window are spoken: its text runs through the decoder once more, as a whole and without
 * timestamps, and where some heads look while it does tells where each token is.
 *
 * @see `find_alignment` in openai/whisper's `timing.py`
 * @module
 */
import type { SiteHeads } from "../../backend/cross_alignment.ts";
import type { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import type { TextAligner } from "../encoder_decoder/text_aligner.ts";
import { warpRows } from "./time_warp.ts";
import { promptOf, TIMESTAMP_SECONDS, type WhisperConfig } from "./whisper_config.ts";
import type { DecodedWindow } from "./whisper_window.ts";

/** What it works with. */
export interface AlignerOptions {
  readonly decoder: CutDecoder;
  readonly config: WhisperConfig;
  readonly alignmentHeads: readonly SiteHeads[];
}

/** A decoded window that the decoder still has. */
export interface AlignedWindow {
  readonly slot: number;
  readonly window: DecodedWindow;
  /** Of its sound. */
  readonly seconds: number;
}

/** See the module. */
export class WhisperAligner {
  readonly #config: WhisperConfig;
  readonly #texts: TextAligner;

  constructor({ decoder, config, alignmentHeads }: AlignerOptions) {
    this.#config = config;
    this.#texts = decoder.openAligner(alignmentHeads);
  }

  /**
   * Times the text's tokens, timestamps not among them.
   *
   * @returns seconds from the window's beginning at which each begins, and after them the end of the last.
   */
  async begins({ slot, window, seconds }: AlignedWindow): Promise<number[]> {
    const { endToken } = this.#config;
    const text = window.tokens.filter((token) => token < endToken);
    const numPlaces = Math.max(1, Math.ceil(seconds / TIMESTAMP_SECONDS - 1e-6));
    if (text.length === 0) return [0];
    const prompt = promptOf(this.#config, window.languageToken);
    const tokens = [...prompt, ...text, endToken];
    const alignment = await this.#texts.align({ slot, tokens, numPlaces });
    // Each token's row is that of the one before it: there the decoder looks for what comes next.
    const first = prompt.length - 1;
    const numRows = text.length + 1;
    const begins = warpRows({
      values: alignment.subarray(first * numPlaces, (first + numRows) * numPlaces),
      numRows,
      numColumns: numPlaces,
    });
    return begins.map((place) => place * TIMESTAMP_SECONDS);
  }
}
