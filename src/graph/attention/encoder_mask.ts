/**
 * Proves that the mask of an encoder's attention is absent or a local window.
 *
 * @module
 */
import type { MaskReader, Visibility } from "./attention_mask.ts";
import { Refusal } from "../refusal.ts";

/** Longest text evaluated: local windows of encoders are shorter, and the time grows with its square. */
const MAX_TOKENS = 600;
const SHORT_TEXTS = [1, 3, 5];

/** A mask of a text of so many tokens. */
interface EvaluatedMask {
  readonly numTokens: number;
  readonly visible: Visibility;
}

function sees({ visible, numTokens }: EvaluatedMask, window: number): boolean {
  for (let query = 0, i = 0; query < numTokens; query++) {
    for (let key = 0; key < numTokens; key++, i++) {
      if (visible[i] !== (Math.abs(key - query) <= window ? 1 : 0)) return false;
    }
  }
  return true;
}

/** The mask of the longest text that can be evaluated; position tables are finite. */
function longestMask(read: MaskReader, limit: number): EvaluatedMask | undefined {
  const evaluate = (numTokens: number): EvaluatedMask | undefined => {
    const visible = read({ pastLength: 0, numTokens });
    return visible && { numTokens, visible };
  };
  let found = evaluate(limit);
  if (found !== undefined) return found;
  for (let [known, unknown] = [0, limit]; unknown - known > 1;) {
    const middle = Math.floor((known + unknown) / 2);
    const seen = evaluate(middle);
    found = seen ?? found;
    if (seen) known = middle;
    else unknown = middle;
  }
  return found;
}

/**
 * Proves that each token of a text sees all of it, or those within a window on either side.
 *
 * @param read the mask of a text without padding.
 * @param contextLength tokens of the longest text that will be run.
 * @param of the attention, for messages.
 * @returns the window; `undefined` if all is seen.
 * @throws {Refusal} when the mask cannot be computed, or is something else.
 */
export function proveWindow(
  read: MaskReader,
  contextLength: number,
  of: string,
): number | undefined {
  const longest = longestMask(read, Math.min(contextLength, MAX_TOKENS));
  if (longest === undefined || longest.numTokens < SHORT_TEXTS.at(-1)!) {
    throw new Refusal(`The mask of ${of} cannot be computed by partial evaluation.`);
  }
  const hidden = longest.visible.subarray(0, longest.numTokens).indexOf(0);
  const window = hidden < 0 ? Infinity : hidden - 1;
  const short = SHORT_TEXTS.map((numTokens) => ({
    numTokens,
    visible: read({ pastLength: 0, numTokens })!,
  }));
  for (const looked of [...short, longest]) {
    if (window >= 0 && sees(looked, window)) continue;
    throw new Refusal(
      `The mask of ${of} hides more of a text of ${looked.numTokens} tokens than what is far from a token.`,
    );
  }
  return window === Infinity ? undefined : window;
}
