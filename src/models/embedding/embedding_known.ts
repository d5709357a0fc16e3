/**
 * Known configuration of embedding models whose folders lack it: exports for transformers.js often have only the graph
 * and the tokenizer. Taken from the models' own cards.
 *
 * @module
 */
import type { PoolingMode } from "./pooling.ts";

/** Configuration that a folder may lack. */
export interface KnownDefaults {
  readonly pooling: PoolingMode;
  readonly query?: string;
  readonly document?: string;
  /** Whether prefixes of the vectors are usable vectors (Matryoshka representation learning). */
  readonly isMatryoshka?: true;
}

const SEARCH_ENGLISH = "Represent this sentence for searching relevant passages: ";

/** By a pattern of the model's name. */
const KNOWN: readonly (readonly [RegExp, KnownDefaults])[] = [
  [/bge-(small|base|large)-en/i, { pooling: "cls", query: SEARCH_ENGLISH }],
  [/bge-(small|base|large)-zh/i, {
    pooling: "cls",
    query: "为这个句子生成表示以用于检索相关文章：",
  }],
  [/bge-m3/i, { pooling: "cls" }],
  [/\be5-(small|base|large)(-v2|-unsupervised)?\b(?!-instruct)/i, {
    pooling: "mean",
    query: "query: ",
    document: "passage: ",
  }],
  [/nomic-embed-text/i, {
    pooling: "mean",
    query: "search_query: ",
    document: "search_document: ",
    isMatryoshka: true,
  }],
  [/mxbai-embed/i, { pooling: "cls", query: SEARCH_ENGLISH, isMatryoshka: true }],
  [/arctic-embed-[lm]-v2/i, { pooling: "cls", query: "query: ", isMatryoshka: true }],
  [/arctic-embed/i, { pooling: "cls", query: SEARCH_ENGLISH }],
  [/gte-(modernbert|\w+-en-v1\.5|multilingual)/i, { pooling: "cls" }],
  [/qwen3-embedding/i, {
    pooling: "lasttoken",
    query:
      "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    isMatryoshka: true,
  }],
  [/embeddinggemma/i, {
    pooling: "mean",
    query: "task: search result | query: ",
    document: "title: none | text: ",
    isMatryoshka: true,
  }],
];

/** The configuration by a model's name; for unknown ones mean pooling, the most common. */
export function knownDefaults(modelName: string): KnownDefaults {
  return KNOWN.find(([pattern]) => pattern.test(modelName))?.[1] ?? { pooling: "mean" };
}
