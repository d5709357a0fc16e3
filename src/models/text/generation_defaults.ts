/**
 * Default sampling parameters: from the model's `generation_config.json`, then from the API's specification.
 *
 * @module
 */
import type { SamplingParams } from "../../decoder/decoder.ts";
import type { GenerationOptions } from "../task.ts";
import { type Json, numberAt, tokensAt } from "../../hub/model_folder.ts";

/** The generation parameters of a model's own configuration. */
export interface GenerationDefaults {
  /** Tokens that end a completion. */
  readonly eosTokenIds: ReadonlySet<number>;
  readonly sampling: Omit<SamplingParams, "seed" | "presencePenalty" | "frequencyPenalty">;
}

/** Reads the defaults. `generation_config.json` takes precedence over `config.json`. */
export function readGenerationDefaults(config: Json, generationConfig: Json): GenerationDefaults {
  const numberOr = (name: string, fallback: number) => numberAt(generationConfig, name) ?? fallback;
  const text = config["text_config"] as Json | undefined;
  return {
    eosTokenIds: new Set(
      [config, text ?? {}, generationConfig].flatMap((json) => tokensAt(json, "eos_token_id")),
    ),
    sampling: {
      temperature: generationConfig["do_sample"] === false ? 0 : numberOr("temperature", 1),
      topP: numberOr("top_p", 1),
      topK: numberOr("top_k", 0),
      minP: numberOr("min_p", 0),
      repetitionPenalty: numberOr("repetition_penalty", 1),
    },
  };
}

/** The sampling parameters of one choice: the request's, completed by the model's defaults. */
function toSampling(
  options: GenerationOptions,
  defaults: GenerationDefaults,
  seed: number,
): SamplingParams {
  const { sampling } = defaults;
  return {
    temperature: options.temperature ?? sampling.temperature,
    topP: options.topP ?? sampling.topP,
    topK: options.topK ?? sampling.topK,
    minP: options.minP ?? sampling.minP,
    topNSigma: options.topNSigma,
    repetitionPenalty: options.repetitionPenalty ?? sampling.repetitionPenalty,
    repetitionWindow: options.repetitionWindow,
    presencePenalty: options.presencePenalty ?? 0,
    frequencyPenalty: options.frequencyPenalty ?? 0,
    seed,
  };
}

/** Seed of choice `index`: the request's own for the first choice, derived ones for the others. */
function choiceSeed(seed: number, index: number): number {
  // An odd multiplier is a bijection on 32 bits, so no two choices share a stream.
  return (seed + Math.imul(index, 0x9e3779b9)) >>> 0;
}

/** The sampling parameters of each choice of a request; seeds are random if it gives none. */
export function toSamplings(
  options: GenerationOptions,
  defaults: GenerationDefaults,
): SamplingParams[] {
  const seed = options.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!;
  return Array.from(
    { length: options.n },
    (_, index) => toSampling(options, defaults, choiceSeed(seed, index)),
  );
}
