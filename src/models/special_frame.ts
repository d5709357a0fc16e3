/**
 * The special tokens that a tokenizer puts around a text.
 *
 * @module
 */
import type { Tokenizer } from "@huggingface/tokenizers";

/** They are found by the tokens of a word. */
const PROBE = "a";

/** Token ids around those of a text. */
export interface SpecialFrame {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** The frame of one text. */
export function findSpecialFrame(tokenizer: Tokenizer): SpecialFrame {
  const { ids } = tokenizer.encode(PROBE);
  const plain = tokenizer.encode(PROBE, { add_special_tokens: false }).ids;
  const at = ids.findIndex((_, index) => startsWith(ids.slice(index), plain));
  return {
    before: ids.slice(0, Math.max(at, 0)),
    after: at < 0 ? [] : ids.slice(at + plain.length),
  };
}

/** Whether `ids` begins with `beginning`. */
export function startsWith(ids: readonly number[], beginning: readonly number[]): boolean {
  return beginning.every((id, index) => ids[index] === id);
}
