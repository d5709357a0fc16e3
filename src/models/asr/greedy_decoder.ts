/**
 * Greedy decoding of a network's output, frame by frame: for CTC heads, and for token-and-duration transducers. Pure.
 *
 * @module
 */
import type { FrameToken } from "./frame_tokens.ts";

export interface Vocabulary {
  readonly blank: number;
  /** Text of each class; empty for special tokens, a space where a word ends or begins. */
  readonly texts: readonly string[];
}

/** Frames of a recording, or of a part of it. */
export interface Frames {
  /** f32 `[frames, width]`: the logits of the classes, or an encoder's output. */
  readonly rows: Float32Array;
  /** The range of frames to decode. */
  readonly from: number;
  readonly to: number;
  /** Index in the recording of the first row. */
  readonly firstFrame: number;
}

/** Decodes the frames of one stretch of speech, which come in order and in several chunks. */
export interface GreedyDecoder {
  /**
   * @returns the tokens that ended.
   * @throws the signal's reason, if decoding is asynchronous.
   */
  push(frames: Frames, signal: AbortSignal): FrameToken[] | Promise<FrameToken[]>;
  /** Ends the token that is still open. */
  end(): FrameToken[];
}

/** The argmax and its log-probability. */
function findLikeliest(logits: Float32Array): { id: number; logprob: number } {
  let id = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[id]!) id = i;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - logits[id]!);
  return { id, logprob: -Math.log(sum) };
}

/**
 * The likeliest token of each frame, with repetitions merged and blanks left out. Each token keeps its frames, so that
 * words have times; a token that continues in the next chunk stays one.
 *
 * @see A. Graves et al.: Connectionist Temporal Classification, 2006, section 3.2 (best path decoding)
 */
export class CtcGreedyDecoder implements GreedyDecoder {
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
      const { id, logprob } = findLikeliest(row);
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

  end(): FrameToken[] {
    const last = this.#last;
    this.#last = undefined;
    return last === undefined ? [] : [{ ...last, text: this.#vocabulary.texts[last.id]! }];
  }
}

/** The prediction and joint networks. `State` covers the tokens before the last. */
export interface Joint<State> {
  /** Number of f32 elements in a frame. */
  readonly width: number;
  /** The state before any token; the last token is then the blank. */
  begin(): State;
  /**
   * Runs both networks with the last token and a frame.
   *
   * @returns f32 logits of each token and the blank, then of each duration (0, 1, 2 … frames); and the predictor's
   * state after the last token.
   */
  run(
    frame: Float32Array,
    lastToken: number,
    state: State,
  ): Promise<{ readonly logits: Float32Array; readonly state: State }>;
}

/** Most tokens per frame, as in NeMo. */
const MAX_TOKENS_PER_FRAME = 10;

/**
 * A token-and-duration transducer: at each frame a joint network, given the tokens so far, predicts the next token or
 * blank, and how many frames to skip.
 *
 * @see H. Xu et al.: Efficient Sequence Transduction by Jointly Predicting Tokens and Durations, 2023, algorithm 2
 */
export class TdtGreedyDecoder<State> implements GreedyDecoder {
  readonly #joint: Joint<State>;
  readonly #vocabulary: Vocabulary;
  #state: State;
  #lastToken: number;
  /** Index in the recording of the next frame to read. */
  #next = 0;

  constructor(joint: Joint<State>, vocabulary: Vocabulary) {
    this.#joint = joint;
    this.#vocabulary = vocabulary;
    this.#state = joint.begin();
    this.#lastToken = vocabulary.blank;
  }

  /** @returns tokens; each lasts from its frame to the next frame that is read. */
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
      const { id, logprob } = findLikeliest(logits.subarray(0, texts.length));
      let step = findLikeliest(logits.subarray(texts.length)).id;
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

  /** No token is ever open: its duration is known when it is emitted. */
  end(): FrameToken[] {
    return [];
  }
}

/** Lets tokens of duration 0 last until the next frame that is read. */
function lengthen(tokens: FrameToken[], next: number): void {
  const last = tokens.at(-1);
  if (last === undefined || last.endFrame > last.startFrame) return;
  tokens[tokens.length - 1] = { ...last, endFrame: Math.min(next, last.startFrame + 1) };
}
