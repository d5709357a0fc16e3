/**
 * The token constraints of a model's `generation_config.json`. Pure.
 *
 * Greedy decoding under these rules gives the same tokens as in transformers.js, except that a forced last token is not
 * applied: an answer that reaches its length limit ends there, with the finish reason `length`.
 *
 * @see `logits_process.js` of transformers.js
 * @module
 */
import { type TokenRules, toMask } from "../../engine/token_rules.ts";
import { type Json, readNumber, readTokenIds } from "../../hub/model_folder.ts";

export interface GenerationRules {
  readonly vocabSize: number;
  readonly eosTokenIds: ReadonlySet<number>;
  /** `no_repeat_ngram_size`; 0 turns it off. */
  readonly noRepeatNgramSize: number;
  /** `suppress_tokens`: tokens that must not occur. */
  readonly suppressed: readonly number[];
  /** `begin_suppress_tokens`: tokens with which the completion must not begin. */
  readonly suppressedFirst: readonly number[];
  /** `bad_words_ids`: token sequences that must not occur. */
  readonly badWords: readonly (readonly number[])[];
  /** `forced_bos_token_id`: the first token of the completion, if the prompt is a single token. */
  readonly forcedFirst: number | undefined;
  /** Minimum number of tokens before the end, prompt included. */
  readonly minLength: number;
  /** Minimum number of completion tokens before the end. */
  readonly minNewTokens: number;
}

/** Reads the rules from the merged configuration. */
export function readGenerationRules(
  config: Json,
  { vocabSize, eosTokenIds }: Pick<GenerationRules, "vocabSize" | "eosTokenIds">,
): GenerationRules {
  const badWords = config["bad_words_ids"];
  return {
    vocabSize,
    eosTokenIds,
    noRepeatNgramSize: readNumber(config, "no_repeat_ngram_size") ?? 0,
    suppressed: readTokenIds(config, "suppress_tokens"),
    suppressedFirst: readTokenIds(config, "begin_suppress_tokens"),
    badWords: (Array.isArray(badWords) ? badWords : [])
      .map((ids) => readTokenIds({ ids }, "ids")).filter(({ length }) => length > 0),
    forcedFirst: readNumber(config, "forced_bos_token_id"),
    minLength: readNumber(config, "min_length") ?? 0,
    minNewTokens: readNumber(config, "min_new_tokens") ?? 0,
  };
}

/**
 * Makes the rules for one answer.
 *
 * @param prompt the decoder's prompt, at least one token id.
 */
export function makeAnswerRules(prompt: readonly number[], rules: GenerationRules): TokenRules {
  const tokens = [...prompt];
  return {
    get mask() {
      return computeAllowedTokens(tokens, prompt.length, rules);
    },
    accept: (tokenId) => {
      tokens.push(tokenId);
    },
  };
}

/**
 * Computes a mask of the tokens that may come next.
 *
 * @param tokens prompt and completion.
 * @param numPromptTokens at least 1.
 * @returns words in which bit `t % 32` of word `t >> 5` is set if token `t` may come next; `undefined` if all may.
 */
export function computeAllowedTokens(
  tokens: readonly number[],
  numPromptTokens: number,
  rules: GenerationRules,
): Uint32Array | undefined {
  const numNew = tokens.length - numPromptTokens;
  const isForced = rules.forcedFirst !== undefined && numPromptTokens === 1;
  if (isForced && numNew === 0) return toMask([rules.forcedFirst], rules.vocabSize);
  const forbidden = [
    ...rules.suppressed,
    ...(numNew === (isForced ? 1 : 0) ? rules.suppressedFirst : []),
    ...listBadWordEnds(tokens, rules.badWords),
    ...listRepetitions(tokens, rules.noRepeatNgramSize),
  ];
  if (tokens.length < rules.minLength || numNew < rules.minNewTokens) {
    forbidden.push(...rules.eosTokenIds);
  }
  if (forbidden.length === 0) return undefined;
  // Bits after the last token have no effect.
  return toMask(forbidden, rules.vocabSize).map((word) => ~word);
}

/** Lists the tokens that would repeat an n-gram of `size` tokens. */
function listRepetitions(tokens: readonly number[], size: number): number[] {
  if (size < 1 || tokens.length < size) return [];
  const last = tokens.slice(tokens.length - (size - 1));
  return tokens.filter((_, index) => endsWith(tokens, last, index));
}

/** Lists the tokens that would complete a forbidden sequence. */
function listBadWordEnds(
  tokens: readonly number[],
  badWords: readonly (readonly number[])[],
): number[] {
  return badWords.filter((word) => endsWith(tokens, word.slice(0, -1)))
    .map((word) => word.at(-1)!);
}

/** Whether the first `length` tokens (all if absent) end with `end`. */
function endsWith(
  tokens: readonly number[],
  end: readonly number[],
  length = tokens.length,
): boolean {
  const start = length - end.length;
  return start >= 0 && end.every((token, index) => token === tokens[start + index]);
}
