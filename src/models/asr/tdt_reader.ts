/**
 * Text out of an encoder's frames by a token-and-duration transducer: at each frame a joint network, given the tokens
 * so far, predicts the next token or blank, and how many frames to skip. Both are decoded greedily. Pure.
 *
 * @see H. Xu et al.: Efficient Sequence Transduction by Jointly Predicting Tokens and Durations, 2023, algorithm 2
 * @module
 */
import {
  type FrameReader,
  type Frames,
  type FrameToken,
  likeliest,
  type Vocabulary,
} from "./frame_tokens.ts";

/** The prediction and joint networks. `State` covers the tokens before the last. */
export interface Joint<State> {
  /** f32 elements of a frame. */
  readonly width: number;
  /** The state before any token; the last token is then the blank. */
  begin(): State;
  /**
   * Runs both networks with the last token and a frame.
   *
   * @returns f32 logits of each token and the blank, then of each duration, which are 0, 1, 2 … frames; and the
   * predictor's state after the last token.
   */
  run(
    frame: Float32Array,
    lastToken: number,
    state: State,
  ): Promise<{ readonly logits: Float32Array; readonly state: State }>;
}

/** Most tokens per frame, as in NeMo. */
const MAX_TOKENS_PER_FRAME = 10;

/** Reads frames in order, which may come in several pieces: the predictor's state is kept. */
export class TdtReader<State> implements FrameReader {
  readonly #joint: Joint<State>;
  readonly #vocabulary: Vocabulary;
  #state: State;
  #lastToken: number;
  /** The recording's next frame to read. */
  #next = 0;

  constructor(joint: Joint<State>, vocabulary: Vocabulary) {
    this.#joint = joint;
    this.#vocabulary = vocabulary;
    this.#state = joint.begin();
    this.#lastToken = vocabulary.blank;
  }

  /** @returns tokens, each from its frame to the next one read. */
  async push(
    { rows, from, to, firstFrame }: Frames,
    signal: AbortSignal,
  ): Promise<FrameToken[]> {
    const { width } = this.#joint;
    const { blank, texts } = this.#vocabulary;
    const tokens: FrameToken[] = [];
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

  /** No token is ever open: each has its duration when it is emitted. */
  end(): FrameToken[] {
    return [];
  }
}

/** A token of duration 0 gets its own frame. */
function lengthen(tokens: FrameToken[], next: number): void {
  const last = tokens.at(-1);
  if (last === undefined || last.endFrame > last.startFrame) return;
  tokens[tokens.length - 1] = { ...last, endFrame: Math.min(next, last.startFrame + 1) };
}
