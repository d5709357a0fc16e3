/**
 * Where in a window's sound its tokens are: they run through the decoder once more, all at once, and where some heads
 * look while they do tells it.
 *
 * @see `find_alignment` in openai/whisper's `timing.py`, which leaves the timestamps out; with them, as they were
 * decoded, words that begin or end at a pause are nearer to where they are.
 * @module
 */
import type { SiteHeads } from "../../backend/cross_alignment.ts";
import type { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import type { TextAligner } from "../encoder_decoder/text_aligner.ts";
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

  /** @returns f32 `[tokens + 1, places]`, as {@linkcode DecodedWindow} has it. */
  async align({ slot, window, seconds }: AlignedWindow): Promise<Float32Array> {
    const numPlaces = Math.max(1, Math.ceil(seconds / TIMESTAMP_SECONDS - 1e-6));
    const prompt = promptOf(this.#config, window.languageToken);
    const tokens = [...prompt, ...window.tokens];
    const alignment = await this.#texts.align({ slot, tokens, numPlaces });
    // The decoder looks for a token while it reads the one before.
    return alignment.subarray((prompt.length - 1) * numPlaces);
  }
}
