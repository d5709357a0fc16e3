/**
 * What the logits after the first token tell of windows: whether somebody speaks, and in which language.
 *
 * @module
 */
import type { Sampler } from "../../backend/backend.ts";
import { GREEDY } from "../../decoder/decoder.ts";
import type { Tensor } from "../../onnx/ort.ts";
import type { WhisperConfig } from "./whisper_config.ts";
import type { WindowAttempts } from "./whisper_window.ts";

const LISTENING = { params: GREEDY, tokenIndex: 0, topLogprobs: 0 } as const;

/**
 * Notes it in the windows.
 *
 * @param logits `[1, rows, vocabSize]`.
 * @param windows of each row; `undefined` where there is nothing to be told.
 */
export async function detectLanguage(
  { sampler, config }: { readonly sampler: Sampler; readonly config: WhisperConfig },
  logits: Tensor,
  windows: readonly (WindowAttempts | undefined)[],
): Promise<void> {
  if (windows.every((window) => window === undefined)) return;
  const best = (tokens: Iterable<number>) => {
    const mask = maskOf(tokens, config.vocabSize);
    return sampler.sample(logits, windows.map(() => ({ ...LISTENING, mask })));
  };
  if (config.noSpeechToken !== undefined) {
    const silent = await best([config.noSpeechToken]);
    windows.forEach((window, row) => {
      if (window) window.noSpeechProbability = Math.exp(silent[row]!.logprob);
    });
  }
  const hasUnknown = windows.some((window) => window && window.languageToken === undefined);
  if (config.languages.size === 0 || !hasUnknown) return;
  const heard = await best(config.languages.values());
  windows.forEach((window, row) => {
    if (window) window.languageToken ??= heard[row]!.tokenId;
  });
}

function maskOf(tokens: Iterable<number>, vocabSize: number): Uint32Array {
  const mask = new Uint32Array(Math.ceil(vocabSize / 32));
  for (const token of tokens) mask[token >>> 5]! |= 1 << (token & 31);
  return mask;
}
