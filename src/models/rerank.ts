/**
 * Rerankers of the sequence-classification form: query and document are read together, and the logits say how well
 * the document answers the query.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../config.ts";
import { HearthError, StartupError } from "../errors.ts";
import { log } from "../log.ts";
import type { RerankEvent, RerankTask, Task } from "../worker/protocol.ts";
import { Encoder } from "./encoder.ts";
import {
  type EncoderLoadOptions,
  findOutput,
  keepOutput,
  openEncoderGraph,
} from "./encoder_graph.ts";
import { maxTokensOf } from "./encoder_limits.ts";
import { EncoderTokenizer } from "./encoder_tokenizer.ts";
import type { ModelFolder } from "./folder.ts";
import { type Model, requireTask } from "./model.ts";
import { TextBatcher } from "./text_batcher.ts";
import { fitPair } from "./text_fit.ts";

/** Requests worked on at once; their documents share batches. */
const MAX_REQUESTS = 256;
const LOGITS = "logits/float32";

interface RerankModelParts {
  readonly encoder: Encoder;
  readonly batcher: TextBatcher;
  readonly tokenizer: EncoderTokenizer;
  readonly maxTokens: number | undefined;
  readonly dtype: Dtype;
}

/** See the module. */
export class RerankModel implements Model {
  readonly kind = "rerank";
  readonly maxSequences = MAX_REQUESTS;
  readonly dtype: Dtype;
  readonly contextLength: number | undefined;
  readonly #parts: RerankModelParts;

  private constructor(parts: RerankModelParts) {
    this.#parts = parts;
    this.dtype = parts.dtype;
    this.contextLength = parts.maxTokens;
  }

  /**
   * Loads a folder.
   *
   * @throws {StartupError} when the folder lacks what the model needs, or its graph is no reranker's.
   */
  static async load(folder: ModelFolder, options: EncoderLoadOptions): Promise<RerankModel> {
    options.onProgress({ what: "reading the tokenizer" });
    const tokenizer = await EncoderTokenizer.load(folder);
    if (!tokenizer.encodesPairs) {
      throw new StartupError(
        `${folder.path}/tokenizer.json has no special tokens between two texts, which a reranker needs.`,
      );
    }
    const maxTokens = await maxTokensOf(folder);
    const { session, dtype } = await openEncoderGraph(folder, options, (graph) => {
      return keepOutput(graph, findOutput(graph, ["logits"]), LOGITS);
    });
    const { padTokenId } = tokenizer;
    const { backend, maxBatchTokens } = options;
    const encoder = await Encoder.create({ backend, session, output: LOGITS, padTokenId });
    if (encoder.width > 2) {
      await encoder.dispose();
      throw new StartupError(
        `The graph gives ${encoder.width} logits for a pair of texts; a reranker gives 1 or 2.`,
      );
    }
    const batcher = new TextBatcher(encoder, maxBatchTokens);
    return new RerankModel({ encoder, batcher, tokenizer, maxTokens, dtype });
  }

  get metrics(): Registry {
    return this.#parts.batcher.metrics.registry;
  }

  start(task: Task, emit: (event: RerankEvent) => void): () => void {
    requireTask(task, "rerank");
    const { batcher, tokenizer } = this.#parts;
    const numTexts = task.documents.length;
    const scores = new Float32Array(numTexts);
    const query = tokenizer.encode(task.query);
    return batcher.add({
      numTexts,
      encode: (index) => {
        const document = tokenizer.encode(task.documents[index]!);
        return tokenizer.framePair(...this.#fit(task, { query, document, index }));
      },
      onRow: (index, logits) => scores[index] = scoreOf(logits),
      onDone: (promptTokens) => emit({ type: "done", scores, promptTokens }),
      onError: (error) => {
        const known = HearthError.from(error);
        if (known.kind === "inference_failed") {
          log.error("reranking failed", { requestId: task.requestId, error });
        }
        emit({ type: "error", error: known.toWire() });
      },
    });
  }

  async dispose(): Promise<void> {
    await this.#parts.batcher.dispose();
    await this.#parts.encoder.dispose();
  }

  #fit(
    { truncation, maxDocumentTokens }: RerankTask,
    pair: { query: readonly number[]; document: readonly number[]; index: number },
  ): [readonly number[], readonly number[]] {
    const { tokenizer, maxTokens } = this.#parts;
    return fitPair(pair.query, pair.document, {
      numSpecial: tokenizer.numSpecialOfPair,
      maxTokens,
      truncation,
      param: `documents[${pair.index}]`,
      maxSecond: maxDocumentTokens,
    });
  }
}

/**
 * The probability of relevance: by one logit, or by two of which the second is for relevance.
 *
 * @throws {Error} when the model failed on numbers.
 */
function scoreOf(logits: Float32Array): number {
  const logit = logits.length === 1 ? logits[0]! : logits[1]! - logits[0]!;
  if (Number.isNaN(logit)) throw new Error("The model gave a logit that is not a number.");
  return 1 / (1 + Math.exp(-logit));
}
