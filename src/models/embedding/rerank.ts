/**
 * Rerankers: the model reads query and document together, and one or two logits give the document's relevance.
 *
 * @module
 */
import { HearthError, StartupError } from "../../base/errors.ts";
import type { ModelProto as Graph } from "../../graph/file/proto.ts";
import type { RerankEvent, RerankTask, Task } from "../task.ts";
import { findOutput } from "../folder/graph_file.ts";
import { type Model, type OpenContext, requireTask } from "../model.ts";
import type { LengthOptions } from "../text/long_text_encoder.ts";
import { type EncodedText, type EncoderTokenizer, fitPair } from "./encoder_tokenizer.ts";
import { type ModelFolder, readJson } from "../../hub/model_folder.ts";
import { readModules } from "./embedding_config.ts";
import { type LoadedTexts, loadTexts, TextModel } from "./text_model.ts";

export class RerankModel extends TextModel implements Model {
  readonly kind = "rerank";
  readonly #format: PairFormat;

  private constructor(loaded: LoadedTexts<PairFormat>) {
    super(loaded);
    this.#format = loaded.source;
  }

  /** @throws {StartupError} when a file is missing from the folder, or its graph is not a reranker. */
  static async load(context: OpenContext): Promise<RerankModel> {
    const columns = await readLogitScore(context.folder);
    const loaded = await loadTexts(
      context,
      ({ model, tokenizer, isDecoder }) =>
        isDecoder
          ? { ...makeYesNoFormat(tokenizer), ...columns && { columns } }
          : { ...makeCrossEncoderFormat(tokenizer), output: { name: findLogits(model) } },
    );
    if (loaded.width <= 2) return new RerankModel(loaded);
    await loaded.texts.dispose();
    throw new StartupError(
      `The graph returns ${loaded.width} logits for a pair of texts; a reranker must return 1 or 2.`,
    );
  }

  start(task: Task, emit: (event: RerankEvent) => void): () => void {
    requireTask(task, "rerank");
    const format = this.#formatFor(task);
    const numTexts = task.documents.length;
    const scores = new Float32Array(numTexts);
    const logits = new Float32Array(numTexts);
    const toLengthOptions = (param: string, mayCut = task.truncation !== undefined) => ({
      maxTokens: this.contextLength,
      mayCut,
      keepsEnd: task.keepsEnd,
      what: param,
      param,
    });
    const { query: asked } = task;
    const shared = typeof asked === "string"
      ? format.encodeQuery(asked, toLengthOptions("query"))
      : undefined;
    return this.run(task.requestId, {
      numTexts,
      beginsAlike: shared !== undefined,
      encode: (index) => {
        const mayCut = task.truncation !== undefined || task.maxDocumentTokens !== undefined;
        const length = toLengthOptions(`documents[${index}]`, mayCut);
        const query = shared ??
          format.encodeQuery(asked[index]!, toLengthOptions(`query[${index}]`));
        const document = format.encodeDocument(task.documents[index]!, length);
        return format.frame(...this.#fit(task, format, { query, document, index }));
      },
      onRow: (index, row) => {
        const logit = computeRelevance(row);
        logits[index] = logit;
        scores[index] = 1 / (1 + Math.exp(-logit));
      },
      onDone: (promptTokens) => emit({ type: "done", scores, logits, promptTokens }),
    }, emit);
  }

  /**
   * Makes the format for a request's instruction.
   *
   * @throws {HearthError} `invalid_value` when the model takes no instruction, or the instruction is too long.
   */
  #formatFor({ instruction }: RerankTask): PairFormat {
    if (instruction === undefined) return this.#format;
    const format = this.#format.instruct?.(instruction);
    const refuse = (message: string) =>
      new HearthError("invalid_value", `instruction: ${message}`, { param: "instruction" });
    if (format === undefined) {
      throw refuse("the loaded model takes no instruction; put it into the query.");
    }
    if (format.numSpecial < (this.contextLength ?? Infinity)) return format;
    throw refuse(
      `want fewer tokens than ${this.contextLength}, the model's limit for the whole input.`,
    );
  }

  #fit(
    { truncation, keepsEnd, maxDocumentTokens }: RerankTask,
    format: PairFormat,
    pair: { query: readonly number[]; document: readonly number[]; index: number },
  ): [readonly number[], readonly number[]] {
    return fitPair(pair.query, pair.document, {
      numSpecial: format.numSpecial,
      maxTokens: this.contextLength,
      truncation,
      keepsEnd,
      param: `documents[${pair.index}]`,
      maxSecond: maxDocumentTokens,
    });
  }
}

/**
 * Reads which tokens' logits sentence-transformers uses as the score of a language model (`LogitScore`): the token that
 * means irrelevant, if the folder gives one, and the token that means relevant.
 *
 * @returns `undefined` if the folder has no such module.
 * @throws {StartupError} naming the file and the field that is not a token id.
 */
async function readLogitScore(folder: ModelFolder): Promise<readonly number[] | undefined> {
  const module = readModules(folder)?.find(({ type }) => type === "LogitScore");
  if (module === undefined) return undefined;
  const file = `${module.path}/config.json`;
  const config = await readJson(folder.path, file);
  const tokenAt = (name: string) => {
    const token = config[name];
    if (typeof token === "number" && Number.isInteger(token) && token >= 0) return token;
    throw new StartupError(
      `${folder.path}/${file}: ${name}: want a token id, saw ${JSON.stringify(token)}.`,
    );
  };
  const isAlone = (config["false_token_id"] ?? null) === null;
  return isAlone
    ? [tokenAt("true_token_id")]
    : [tokenAt("false_token_id"), tokenAt("true_token_id")];
}

/**
 * Finds the output with the logits of each pair of texts.
 *
 * @throws {StartupError} when there is no such output, or it has logits for each token.
 */
function findLogits(graph: Graph): string {
  const logits = findOutput(graph, ["logits"]);
  const shape = graph.graph.outputs.find(({ name }) => name === logits)?.shape ?? [];
  if (shape.length <= 2) return logits;
  throw new StartupError(
    `The graph returns logits of shape [${
      shape.join(", ")
    }], for each token; a reranker returns 1 or 2 for a pair of texts.`,
  );
}

/**
 * Computes the logit of relevance: the only logit, or, of two, the second (relevant) minus the first (irrelevant).
 *
 * @throws {Error} when a logit is not a number.
 */
function computeRelevance(logits: Float32Array): number {
  const logit = logits.length === 1 ? logits[0]! : logits[1]! - logits[0]!;
  if (Number.isNaN(logit)) throw new Error("The model returned a logit that is not a number.");
  return logit;
}

/** A format that combines a query and a document into one input. */
interface PairFormat {
  /** Number of tokens around and between query and document. */
  readonly numSpecial: number;
  encodeQuery(query: string, length?: LengthOptions): readonly number[];
  encodeDocument(document: string, length?: LengthOptions): readonly number[];
  frame(query: readonly number[], document: readonly number[]): EncodedText;
  /** Returns the format with another instruction; absent if the model takes none. */
  instruct?(instruction: string): PairFormat;
}

/**
 * Makes the format of cross-encoders: two texts with the tokenizer's special tokens around and between them.
 *
 * @throws {StartupError} when the tokenizer puts no special tokens between two texts.
 */
function makeCrossEncoderFormat(tokenizer: EncoderTokenizer): PairFormat {
  if (!tokenizer.encodesPairs) {
    throw new StartupError(
      "The tokenizer puts no special tokens between two texts, which a reranker needs.",
    );
  }
  return {
    numSpecial: tokenizer.numSpecialInPair,
    encodeQuery: (query, length) => tokenizer.encode(query, length),
    encodeDocument: (document, length) => tokenizer.encode(document, length),
    frame: (query, document) => tokenizer.framePair(query, document),
  };
}

const SYSTEM = "Judge whether the Document meets the requirements based on the Query and the " +
  'Instruct provided. Note that the answer can only be "yes" or "no".';
const INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query";

const BEFORE = `<|im_start|>system\n${SYSTEM}<|im_end|>\n<|im_start|>user\n<Instruct>: `;
const AFTER_INSTRUCTION = "\n<Query>:";
const BETWEEN = "<Document>:";
const AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/** A prompt that a language model answers with yes or no. */
interface JudgeFormat extends PairFormat {
  /** The tokens of the answers no and yes, whose logits are read. */
  readonly columns: readonly [no: number, yes: number];
}

/**
 * Makes the format of Qwen3-Reranker: the model is asked whether the document answers the query. The text is divided
 * where the tokenizer always splits, so the parts have the same tokens as the whole text.
 *
 * @see https://huggingface.co/Qwen/Qwen3-Reranker-0.6B
 * @throws {StartupError} when the tokenizer is of another family.
 */
export function makeYesNoFormat(
  tokenizer: EncoderTokenizer,
  instruction: string = INSTRUCTION,
): JudgeFormat {
  const beginning = `${BEFORE}${instruction}${AFTER_INSTRUCTION}`;
  const [before, between, after] = [beginning, BETWEEN, AFTER]
    .map((text) => tokenizer.encode(text));
  const answers = ["no", "yes"].map((word) => tokenizer.encode(word));
  const needed = [tokenizer.encode("<|im_start|>"), tokenizer.encode("<|im_end|>"), ...answers];
  if (needed.some((ids) => ids.length !== 1)) {
    throw new StartupError(
      "The tokenizer lacks one of the tokens <|im_start|>, <|im_end|>, no and yes. Of the rerankers that are language " +
        "models, only Qwen3-Reranker is supported.",
    );
  }
  return {
    numSpecial: before!.length + between!.length + after!.length,
    encodeQuery: (query, length) => tokenizer.encode(` ${query}\n`, length),
    encodeDocument: (document, length) => tokenizer.encode(` ${document}`, length),
    frame: (query, document) => ({
      ids: [...before!, ...query, ...between!, ...document, ...after!],
    }),
    columns: [answers[0]![0]!, answers[1]![0]!],
    instruct: (other) => makeYesNoFormat(tokenizer, other),
  };
}
