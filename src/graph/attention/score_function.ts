/**
 * Measures the function that a graph applies to attention scores between product and softmax.
 *
 * @module
 */
import { HIDDEN_SCORE } from "./attention_mask.ts";
import { Refusal } from "../refusal.ts";

/** `scale * s`, or `softcap * tanh(scale * s / softcap)`. */
interface ScoreFunction {
  readonly scale: number;
  readonly softcap: number | undefined;
}

/** Scores at which the function is sampled: around zero, and far beyond any cap. */
const PROBE_SCORES = [1, -3, 50, -700];
const FAR_SCORE = 1e6;
const NEAR_SCORE = 1e-3;

/**
 * Finds scale and softcap.
 *
 * @param read the softmax's input when every score has this value; `undefined` if unknown.
 * @param of the softmax, for messages.
 * @throws {Refusal} when it is another function, or when keys differ in more than the mask.
 */
export function measureScores(
  read: (score: number) => Float64Array | undefined,
  of: string,
): ScoreFunction {
  const mask = read(0);
  const at = (score: number): number => {
    const seen = read(score)?.filter((_, i) => mask![i]! > HIDDEN_SCORE);
    const [first] = seen ?? [];
    if (first === undefined || !seen!.every((x) => x === first)) {
      throw new Refusal(
        `What is added to the scores in front of ${of} is not a mask: it differs from key to key (ALiBi?).`,
      );
    }
    return first;
  };
  if (mask === undefined) {
    throw new Refusal(`The mask in front of ${of} cannot be computed by partial evaluation.`);
  }
  if (at(0) !== 0) throw new Refusal(`In front of ${of} ${at(0)} is added to every score.`);
  const far = at(FAR_SCORE);
  const slope = at(NEAR_SCORE) / NEAR_SCORE;
  const isCapped = Math.abs(far) < 0.5 * Math.abs(slope * FAR_SCORE);
  const cap = Math.abs(far);
  const expected = (score: number) =>
    isCapped ? cap * Math.tanh((slope * score) / cap) : slope * score;
  for (const score of PROBE_SCORES) {
    const [got, wanted] = [at(score), expected(score)];
    if (Math.abs(got - wanted) > 1e-4 * Math.abs(wanted)) {
      throw new Refusal(
        `In front of ${of} a score of ${score} becomes ${got}: neither scaled nor capped by tanh.`,
      );
    }
  }
  return { scale: slope, softcap: isCapped ? cap : undefined };
}
