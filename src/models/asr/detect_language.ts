/**
 * Detects speech in a window and its language, from the model's logits after the start token.
 *
 * @module
 */
import { GREEDY, type SampledToken } from "../../decoder/decoder.ts";
import type { EngineLoop } from "../../engine/loop.ts";
import { generate } from "../../engine/generate.ts";
import type { GenerationRequest } from "../../engine/scheduler.ts";
import type { WhisperConfig } from "./whisper_config.ts";
import type { WindowAttempts, WindowInput } from "./whisper_window.ts";

/** A bias that makes a token certain. */
const FORCED = 1e6;

/** Records it in the window. @throws the signal's reason; what the step throws. */
export async function detectLanguage(
  engine: EngineLoop,
  attempts: WindowAttempts,
  { input, config, signal }: {
    readonly input: WindowInput;
    readonly config: WhisperConfig;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const choose = async (how: Pick<GenerationRequest, "rules" | "logitBias">) => {
    let chosen: SampledToken | undefined;
    await generate(engine, {
      promptTokens: Int32Array.of(config.startToken),
      sample: GREEDY,
      maxTokens: 1,
      topLogprobs: 0,
      encoderInput: input,
      ...how,
      onToken: (token) => (chosen = token, true),
      signal,
    });
    return chosen!;
  };
  const { noSpeechToken, languages } = config;
  await Promise.all([
    // Sampled among all tokens: its probability among them is wanted.
    noSpeechToken !== undefined &&
    choose({ logitBias: new Map([[noSpeechToken, FORCED]]) }).then(({ logprob }) => {
      attempts.noSpeechProbability = Math.exp(logprob);
    }),
    attempts.languageToken === undefined && languages.size > 0 &&
    choose({ rules: () => ({ mask: maskOf(languages.values(), config.vocabSize) }) })
      .then(({ tokenId }) => {
        attempts.languageToken = tokenId;
      }),
  ]);
}

function maskOf(tokens: Iterable<number>, vocabSize: number): Uint32Array {
  const mask = new Uint32Array(Math.ceil(vocabSize / 32));
  for (const token of tokens) mask[token >>> 5]! |= 1 << (token & 31);
  return mask;
}
