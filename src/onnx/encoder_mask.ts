/**
 * Proves that the mask of an encoder's attention hides nothing but what is far away.
 *
 * @module
 */
import type { MaskReader, Visibility } from "./attention_mask.ts";
import { Refusal } from "./refusal.ts";

/** Texts up to this length are looked at: local windows of encoders are shorter. */
const MAX_LOOKED_AT = 1100;
const SHORT_TEXTS = [1, 3, 5];

function sees(visible: Visibility, numTokens: number, reach: number): boolean {
  return visible.every((seen, i) => {
    const distance = Math.abs(i % numTokens - Math.floor(i / numTokens));
    return (seen === 1) === (distance <= reach);
  });
}

/**
 * Proves that each token of a text sees all of it, or those within reach on either side.
 *
 * @param read the mask of a text without padding.
 * @param contextLength tokens of the longest text that will be run.
 * @param of the attention, for messages.
 * @returns the reach; `undefined` where all is seen.
 * @throws {Refusal} when the mask cannot be computed, or is something else.
 */
export function proveReach(
  read: MaskReader,
  contextLength: number,
  of: string,
): number | undefined {
  const longest = Math.min(contextLength, MAX_LOOKED_AT);
  const looked = [...SHORT_TEXTS, longest].map((numTokens) => {
    const visible = read({ pastLength: 0, numTokens });
    if (visible !== undefined) return { numTokens, visible };
    throw new Refusal(`The mask of ${of} cannot be computed on paper for ${numTokens} tokens.`);
  });
  const firstRow = looked.at(-1)!.visible.subarray(0, longest);
  const hidden = firstRow.indexOf(0);
  const reach = hidden < 0 ? Infinity : hidden - 1;
  for (const { numTokens, visible } of looked) {
    if (reach >= 0 && sees(visible, numTokens, reach)) continue;
    throw new Refusal(
      `The mask of ${of} hides more of a text of ${numTokens} tokens than what is far from a token.`,
    );
  }
  return reach === Infinity ? undefined : reach;
}
