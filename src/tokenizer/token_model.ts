import type { Vocabulary } from "./vocabulary.ts";

/** Splits words into tokens. */
export interface TokenModel {
  readonly vocabulary: Vocabulary;
  /** Appends the ids of a word. */
  encode(word: string, ids: number[]): void;
}
