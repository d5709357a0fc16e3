/**
 * `token_rules` on the CPU: the reference for the WGSL kernel, and the CPU backend's implementation.
 *
 * The tokens that a row's rule allows stay. If the timestamps among them are together likelier than any one of the
 * others, `ln Σ e^logit[timestamps] > max logit[others]`, the others are removed too. The logit of a removed token
 * becomes the lowest number. NaN is ignored, and infinity counts as the largest number, as in sampling.
 *
 * @see `ApplyTimestampRules` in openai/whisper's `decoding.py`
 * @module
 */
import { LARGEST_FLOAT32 } from "./sample_terms.ts";
import { LOWEST_LOGIT, type TokenRule, type TokenRulesOptions } from "./sample_row.ts";

const ALL_BITS = 0xffffffff;

/**
 * Applies rules to logits in place.
 *
 * @param rules the rule of each row; a row without one is left unchanged.
 * @param logits f32 or f16 `[rules.length, vocabSize]`.
 */
export function applyTokenRules(
  logits: Float32Array | Float16Array,
  rules: readonly (TokenRule | undefined)[],
  options: TokenRulesOptions,
): void {
  rules.forEach((rule, index) => {
    if (rule === undefined) return;
    const start = index * options.vocabSize;
    applyRule(logits.subarray(start, start + options.vocabSize), rule, options);
  });
}

function applyRule(
  logits: Float32Array | Float16Array,
  { allowsText, allowsEnd, firstTimestamp, lastTimestamp }: TokenRule,
  { endToken, timestampsStart, plainTokens }: TokenRulesOptions,
): void {
  const lowest = logits instanceof Float32Array ? LOWEST_LOGIT.f32 : LOWEST_LOGIT.f16;
  let bestOther = -LARGEST_FLOAT32;
  for (let start = 0; start < timestampsStart; start += 32) {
    const end = Math.min(start + 32, timestampsStart);
    const plain = plainTokens[start >>> 5]!;
    // This case covers nearly all of a vocabulary.
    if (allowsText && plain === ALL_BITS && (endToken < start || endToken >= end)) {
      // Comparisons with NaN are false.
      for (let token = start; token < end; token++) {
        if (logits[token]! > bestOther) bestOther = logits[token]!;
      }
      continue;
    }
    for (let token = start; token < end; token++) {
      const isPlain = (plain >>> (token & 31) & 1) === 1;
      if (token === endToken ? !allowsEnd : !allowsText || !isPlain) logits[token] = lowest;
      else bestOther = Math.max(bestOther, bounded(logits[token]!));
    }
  }
  bestOther = bounded(bestOther);
  logits.fill(lowest, timestampsStart, Math.max(timestampsStart, firstTimestamp));
  logits.fill(lowest, Math.max(timestampsStart, lastTimestamp + 1));
  if (firstTimestamp > lastTimestamp) return;
  const times = logits.subarray(firstTimestamp, lastTimestamp + 1);
  let best = -LARGEST_FLOAT32;
  for (let i = 0; i < times.length; i++) best = Math.max(best, bounded(times[i]!));
  let sum = 0;
  for (let i = 0; i < times.length; i++) sum += Math.exp(bounded(times[i]!) - best);
  if (Math.log(sum) + best > bestOther) logits.fill(lowest, 0, timestampsStart);
}

function bounded(logit: number): number {
  return Number.isNaN(logit) ? -LARGEST_FLOAT32 : Math.min(logit, LARGEST_FLOAT32);
}
