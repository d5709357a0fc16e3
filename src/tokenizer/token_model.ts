import type { Vocabulary } from "./vocabulary.ts";

/** How a word becomes tokens. */
export interface TokenModel {
  readonly vocabulary: Vocabulary;
  /** Appends the ids of a word. */
  encode(word: string, ids: number[]): void;
}
