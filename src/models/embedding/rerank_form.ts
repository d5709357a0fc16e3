/**
 * Formats of query and document for a reranker.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { LengthOptions } from "../long_text.ts";
import type { EncodedText, EncoderTokenizer } from "./encoder_tokenizer.ts";

/** How to combine a pair to one text. */
export interface PairForm {
  /** Tokens around and between query and document. */
  readonly numSpecial: number;
  encodeQuery(query: string, length?: LengthOptions): readonly number[];
  encodeDocument(document: string, length?: LengthOptions): readonly number[];
  frame(query: readonly number[], document: readonly number[]): EncodedText;
}

/**
 * The format of cross-encoders: two texts between the tokenizer's special tokens.
 *
 * @throws {StartupError} when the tokenizer has none between texts.
 */
export function crossEncoderForm(tokenizer: EncoderTokenizer): PairForm {
  if (!tokenizer.encodesPairs) {
    throw new StartupError(
      "The tokenizer has no special tokens between two texts, which a reranker needs.",
    );
  }
  return {
    numSpecial: tokenizer.numSpecialOfPair,
    encodeQuery: (query, length) => tokenizer.encode(query, length),
    encodeDocument: (document, length) => tokenizer.encode(document, length),
    frame: (query, document) => tokenizer.framePair(query, document),
  };
}

const SYSTEM = "Judge whether the Document meets the requirements based on the Query and the " +
  'Instruct provided. Note that the answer can only be "yes" or "no".';
const INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query";

const BEFORE = `<|im_start|>system\n${SYSTEM}<|im_end|>\n<|im_start|>user\n` +
  `<Instruct>: ${INSTRUCTION}\n<Query>:`;
const BETWEEN = "<Document>:";
const AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/** A prompt that a language model answers with yes or no. */
export interface JudgeForm extends PairForm {
  /** The tokens that answer no and yes. */
  readonly answers: readonly [no: number, yes: number];
}

/**
 * The format of Qwen3-Reranker: the model is asked whether the document answers the query. Texts are split where no
 * token of its tokenizer crosses, so that the parts' tokens are those of the whole.
 *
 * @see https://huggingface.co/Qwen/Qwen3-Reranker-0.6B
 * @throws {StartupError} when the tokenizer is of another family.
 */
export function yesNoRerankPrompt(tokenizer: EncoderTokenizer): JudgeForm {
  const [before, between, after] = [BEFORE, BETWEEN, AFTER].map((text) => tokenizer.encode(text));
  const answers = ["no", "yes"].map((word) => tokenizer.encode(word));
  const needed = [tokenizer.encode("<|im_start|>"), tokenizer.encode("<|im_end|>"), ...answers];
  if (needed.some((ids) => ids.length !== 1)) {
    throw new StartupError(
      "Of rerankers that are language models, Hearth knows the form of Qwen3-Reranker, and the tokenizer lacks " +
        "its tokens <|im_start|>, <|im_end|>, no and yes.",
    );
  }
  return {
    numSpecial: before!.length + between!.length + after!.length,
    encodeQuery: (query, length) => tokenizer.encode(` ${query}\n`, length),
    encodeDocument: (document, length) => tokenizer.encode(` ${document}`, length),
    frame: (query, document) => ({
      ids: [...before!, ...query, ...between!, ...document, ...after!],
    }),
    answers: [answers[0]![0]!, answers[1]![0]!],
  };
}
