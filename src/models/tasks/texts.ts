/**
 * The tasks of embedding, reranking and tokenization.
 *
 * @module
 */
import type { TokenText } from "../text/token_text.ts";
import type { Conversation, ErrorEvent } from "./chat.ts";

/** A text, or the ids of its tokens. */
export type TextInput = string | readonly number[];

/**
 * Where to cut a text that is too long: at the model's own limit, or after a number of tokens, special ones included.
 */
export type Truncation = "model" | number;

/** Turns texts into vectors. If one text fails, the whole task does. */
export interface EmbedTask {
  readonly type: "embed";
  readonly requestId: string;
  readonly inputs: readonly TextInput[];
  /** The purpose of the texts: the model's prompt for it is put before each. */
  readonly inputType?: "query" | "document" | undefined;
  /** Alternatively, the name of one of the model's prompts. */
  readonly promptName?: string | undefined;
  /**
   * Whether vectors are normalised to length 1; the model's own setting if absent. Shortened vectors are always
   * normalised.
   */
  readonly normalizes?: boolean | undefined;
  /** Leading elements to keep of each vector; all if absent. */
  readonly dimensions?: number | undefined;
  /** If absent, a text that is too long is an error. */
  readonly truncation?: Truncation | undefined;
}

/** The single answer to an embed task. */
export type EmbedEvent =
  | {
    readonly type: "done";
    /** f32 `[inputs, dimensions]`, row-major. */
    readonly vectors: Float32Array;
    readonly dimensions: number;
    /** Number of tokens of all inputs, special ones included. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Scores documents by their relevance to a query, or pairs of both. */
export interface RerankTask {
  readonly type: "rerank";
  readonly requestId: string;
  /** One query for all documents, or one for each. */
  readonly query: string | readonly string[];
  readonly documents: readonly string[];
  /** If absent, a query and document that are too long together are an error; otherwise the document is cut first. */
  readonly truncation?: Truncation | undefined;
  /** Most tokens of a document; longer documents are truncated. */
  readonly maxDocumentTokens?: number | undefined;
  /** What relevance means, for models that take an instruction; their own instruction if absent. */
  readonly instruction?: string | undefined;
}

/** The single answer to a rerank task. */
export type RerankEvent =
  | {
    readonly type: "done";
    /** 0 to 1 for each document, in the order of the task. */
    readonly scores: Float32Array;
    /** The scores before the sigmoid; they still differ where scores round to 1. */
    readonly logits: Float32Array;
    /** Number of tokens of all pairs of query and document. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Turns a text, or a conversation, into tokens. */
export interface TokenizeTask {
  readonly type: "tokenize";
  readonly requestId: string;
  readonly text: string;
  /** A conversation instead of a text. */
  readonly chat?: Conversation | undefined;
  /** Whether to add the special tokens around a text. */
  readonly hasSpecial: boolean;
  /** Whether the text and the bytes of each token are wanted. */
  readonly withPieces: boolean;
  /** Whether only the rendered conversation is wanted. */
  readonly onlyRenders: boolean;
}

/** Turns tokens into text. */
export interface DetokenizeTask {
  readonly type: "detokenize";
  readonly requestId: string;
  readonly tokens: readonly number[];
}

/** The single answer to a tokenize or detokenize task. */
export type TokenTaskEvent =
  | {
    readonly type: "done";
    readonly tokens: readonly number[];
    readonly pieces?: readonly TokenText[] | undefined;
    readonly text: string;
  }
  | ErrorEvent;
