/**
 * Which tokens may follow in a window: Whisper's rules on timestamps. Pure.
 *
 * A window is `<|0.00|> text <|2.10|><|2.10|> text <|4.00|>`: every text between two timestamps, none before the one
 * ahead of it, and where two stand together the second opens the next text.
 *
 * @see `ApplyTimestampRules` in openai/whisper's `decoding.py`
 * @module
 */
import type { TokenRule } from "../../../kernels/token_rule.ts";
import type { WhisperConfig } from "./whisper_config.ts";

/** What may follow the window's tokens so far, without the prompt. */
export function ruleAfter(
  tokens: readonly number[],
  { timestampsStart, lastFirstTimestamp, vocabSize }: Pick<
    WhisperConfig,
    "vocabSize" | "timestampsStart" | "lastFirstTimestamp"
  >,
): TokenRule {
  const lastTimestamp = vocabSize - 1;
  if (tokens.length === 0) {
    return {
      allowsText: false,
      allowsEnd: false,
      firstTimestamp: timestampsStart,
      lastTimestamp: Math.min(lastFirstTimestamp, lastTimestamp),
    };
  }
  const isTimestamp = (token: number | undefined) =>
    token !== undefined && token >= timestampsStart;
  const latest = tokens.findLast(isTimestamp)!;
  if (!isTimestamp(tokens.at(-1))) {
    return { allowsText: true, allowsEnd: true, firstTimestamp: latest + 1, lastTimestamp };
  }
  const opensText = tokens.length < 2 || isTimestamp(tokens.at(-2));
  if (opensText) {
    return { allowsText: true, allowsEnd: true, firstTimestamp: vocabSize, lastTimestamp };
  }
  return { allowsText: false, allowsEnd: true, firstTimestamp: latest, lastTimestamp };
}
