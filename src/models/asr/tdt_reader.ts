/**
 * Text out of an encoder's frames by a token-and-duration transducer: at each frame a joint network, which knows the
 * tokens so far, says the next token or none, and how many frames to pass over. The likeliest of both is taken. Pure.
 *
 * @see H. Xu et al.: Efficient Sequence Transduction by Jointly Predicting Tokens and Durations, 2023, algorithm 2
 * @module
 */
import { type CtcToken, type CtcVocabulary, type Frames, likeliest } from "./ctc.ts";
import type { FrameReader } from "./frame_recogniser.ts";

/** What the joint network says of a frame. */
export interface JointOutput<State> {
  /** f32: of each token and the blank, then of each duration, which are 0, 1, 2 … frames. */
  readonly logits: Float32Array;
  /** The predictor's, with the last token taken in. */
  readonly state: State;
}

/** The prediction and joint networks. `State` is what they remember of the tokens before the last. */
export interface Joint<State> {
  /** f32 elements of a frame. */
  readonly width: number;
  /** What there is before any token; the last token is the blank then. */
  begin(): State;
  /** Takes in the last token, and looks at a frame. */
  run(frame: Float32Array, lastToken: number, state: State): Promise<JointOutput<State>>;
}

/** As in NeMo: a network that finds no end of tokens in one frame is made to go on. */
const MAX_TOKENS_PER_FRAME = 10;

/** Reads frames in order, which may come in several pieces: the predictor goes on where it was. */
export class TdtReader<State> implements FrameReader {
  readonly #joint: Joint<State>;
  readonly #vocabulary: CtcVocabulary;
  #state: State;
  #lastToken: number;
  /** The recording's frame to look at next. */
  #next = 0;

  constructor(joint: Joint<State>, vocabulary: CtcVocabulary) {
    this.#joint = joint;
    this.#vocabulary = vocabulary;
    this.#state = joint.begin();
    this.#lastToken = vocabulary.blank;
  }

  /** @returns tokens, each from the frame where it was heard to the one that is looked at next. */
  async push(
    { rows, from, to, firstFrame }: Frames,
    signal: AbortSignal,
  ): Promise<CtcToken[]> {
    const { width } = this.#joint;
    const { blank, texts } = this.#vocabulary;
    const tokens: CtcToken[] = [];
    this.#next = Math.max(this.#next, firstFrame + from);
    for (let numHere = 0; this.#next < firstFrame + to;) {
      signal.throwIfAborted();
      const startFrame = this.#next;
      const row = startFrame - firstFrame;
      const frame = rows.slice(row * width, (row + 1) * width);
      const { logits, state } = await this.#joint.run(frame, this.#lastToken, this.#state);
      const { id, logprob } = likeliest(logits.subarray(0, texts.length));
      let step = likeliest(logits.subarray(texts.length)).id;
      const isToken = id !== blank;
      if (isToken) numHere++;
      if (step === 0 && (!isToken || numHere === MAX_TOKENS_PER_FRAME)) step = 1;
      this.#next += step;
      if (step > 0) numHere = 0;
      if (!isToken) {
        lengthen(tokens, this.#next);
        continue;
      }
      this.#state = state;
      this.#lastToken = id;
      tokens.push({ id, text: texts[id]!, startFrame, endFrame: this.#next, logprob });
    }
    return tokens;
  }

  /** No token is open: each has its length when it is heard. */
  end(): CtcToken[] {
    return [];
  }
}

/** A token that was to pass over no frame lasts for the one that it was heard in. */
function lengthen(tokens: CtcToken[], next: number): void {
  const last = tokens.at(-1);
  if (last === undefined || last.endFrame > last.startFrame) return;
  tokens[tokens.length - 1] = { ...last, endFrame: Math.min(next, last.startFrame + 1) };
}
