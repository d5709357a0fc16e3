/**
 * Tokens out of a CTC model's logits: the likeliest token of each frame, repetitions of one token as one, blanks left
 * out. Each token keeps its frames, so that words have times. Pure.
 *
 * @see A. Graves et al.: Connectionist Temporal Classification, 2006, section 3.2 (best path decoding)
 * @module
 */
import {
  type FrameReader,
  type Frames,
  type FrameToken,
  likeliest,
  type Vocabulary,
} from "./frame_tokens.ts";

/** Reads frames in order, which may come in several pieces: a token that continues in the next piece stays one. */
export class CtcReader implements FrameReader {
  readonly #vocabulary: Vocabulary;
  #last: { id: number; startFrame: number; endFrame: number; logprob: number } | undefined;

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** @returns the tokens that ended. */
  push({ rows, from, to, firstFrame }: Frames): FrameToken[] {
    const numClasses = this.#vocabulary.texts.length;
    const ended: FrameToken[] = [];
    for (let frame = from; frame < to; frame++) {
      const row = rows.subarray(frame * numClasses, (frame + 1) * numClasses);
      const { id, logprob } = likeliest(row);
      const position = firstFrame + frame;
      if (this.#last?.id === id) {
        this.#last.endFrame = position + 1;
        this.#last.logprob = Math.max(this.#last.logprob, logprob);
        continue;
      }
      ended.push(...this.end());
      if (id !== this.#vocabulary.blank) {
        this.#last = { id, startFrame: position, endFrame: position + 1, logprob };
      }
    }
    return ended;
  }

  /** Ends the open token. */
  end(): FrameToken[] {
    const last = this.#last;
    this.#last = undefined;
    return last === undefined ? [] : [{ ...last, text: this.#vocabulary.texts[last.id]! }];
  }
}
