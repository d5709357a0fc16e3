/**
 * Pictures that are to be written about, and the choices of their answers on their way, token by token.
 *
 * @module
 */
import type { SampledToken, SampleRow, SamplingParams } from "../../decoder/decoder.ts";
import { SamplingState } from "../../engine/sampling_state.ts";
import type { Tensor } from "../../onnx/ort.ts";
import { allowedAfter, type GenerationRules } from "./generation_rules.ts";
import type { GroupJob } from "../encoder_decoder/job_batcher.ts";

/** A picture and what is to be written about it. */
export interface GenerationJob extends GroupJob {
  /** f32 `[1, channels, height, width]`, on the CPU. */
  readonly pixels: Tensor;
  /** Token ids of the text that the encoder reads. */
  readonly text: readonly number[];
  /** Token ids that the decoder begins with, at least one. */
  readonly prompt: readonly number[];
  /** Each is a choice of its own. */
  readonly samples: readonly SamplingParams[];
  readonly logitBias: ReadonlyMap<number, number> | undefined;
  readonly topLogprobs: number;
  /** Most tokens of a choice; at least 1. */
  readonly maxTokens: number;
  /** The picture was encoded, for one choice or more. @param numPlaces of the encoder's output. */
  readonly onEncoded: (numPlaces: number) => void;
  /**
   * A choice got a token.
   *
   * @param isLast whether the choice has no room for another.
   * @returns whether the choice ends with it; one that `isLast` ends anyhow.
   */
  readonly onToken: (index: number, token: SampledToken, isLast: boolean) => boolean;
  /** A choice has ended. */
  readonly onEnd: () => void;
}

/** A choice. */
export class GenerationRow {
  readonly job: GenerationJob;
  /** Prompt, then completion. */
  readonly tokens: number[];
  readonly #index: number;
  readonly #sampling: SamplingState;

  constructor(job: GenerationJob, index: number) {
    const { prompt, samples, logitBias, topLogprobs } = job;
    const params = samples[index]!;
    this.job = job;
    this.tokens = [...prompt];
    this.#index = index;
    this.#sampling = new SamplingState(Int32Array.from(prompt), { params, logitBias, topLogprobs });
  }

  /** How its next token is to be chosen. */
  ask(rules: GenerationRules): SampleRow {
    const { params, tokenIndex, adjustments, topLogprobs } = this.#sampling;
    const mask = allowedAfter(this.tokens, this.job.prompt.length, rules);
    return { params, tokenIndex, adjustments, topLogprobs, mask };
  }

  /** Takes the token that was chosen, unless nobody waits for it. @returns whether the choice ends with it. */
  take(token: SampledToken): boolean {
    const { job, tokens } = this;
    if (job.isDropped()) return false;
    tokens.push(token.tokenId);
    this.#sampling.push(token.tokenId);
    const isLast = tokens.length - job.prompt.length === job.maxTokens;
    if (!job.onToken(this.#index, token, isLast) && !isLast) return false;
    job.onEnd();
    return true;
  }
}
