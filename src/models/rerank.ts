/**
 * Rerankers: query and document are read together, and a few logits say how well the document answers the query.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../config.ts";
import { HearthError, StartupError } from "../errors.ts";
import { log } from "../log.ts";
import type { RerankEvent, RerankTask, Task } from "./task.ts";
import { loadDecoderTexts } from "./decoder_texts_load.ts";
import { maxTokensOf } from "./encoder_limits.ts";
import { loadEncoder } from "./encoder_load.ts";
import { EncoderTokenizer } from "./encoder_tokenizer.ts";
import type { ModelFolder } from "./folder.ts";
import { findOutput, keepOutput } from "./graph_output.ts";
import { type Model, requireTask } from "./model.ts";
import { FIRST_TOKEN } from "./packed_encoder.ts";
import { crossEncoderForm, judgeForm, type PairForm } from "./rerank_form.ts";
import { fitPair } from "./text_fit.ts";
import { isDecoder, readTextGraph, type TextLoadOptions } from "./text_graph.ts";
import type { TextRunner } from "./text_runner.ts";

/** Requests worked on at once; their documents share batches. */
const MAX_REQUESTS = 256;
const LOGITS = "logits/float32";

/** What a reranker is made of. It owns the runner. */
interface RerankModelParts {
  readonly texts: TextRunner;
  readonly form: PairForm;
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
  static async load(folder: ModelFolder, options: TextLoadOptions): Promise<RerankModel> {
    options.onProgress({ what: "reading the tokenizer" });
    const tokenizer = await EncoderTokenizer.load(folder);
    const maxTokens = await maxTokensOf(folder);
    await using graph = await readTextGraph(folder, options);
    const { dtype } = graph;
    if (isDecoder(graph.model)) {
      const form = judgeForm(tokenizer);
      const loaded = await loadDecoderTexts(folder, { ...options, dtype }, form.answers);
      const most = Math.min(loaded.maxTokens, maxTokens ?? Infinity);
      return new RerankModel({ ...loaded, form, maxTokens: most });
    }
    const form = crossEncoderForm(tokenizer);
    const model = keepOutput(graph.model, findOutput(graph.model, ["logits"]), LOGITS);
    const packing = { model, output: LOGITS, summary: FIRST_TOKEN };
    const loaded = await loadEncoder(graph, { model, output: LOGITS, packing }, {
      ...options,
      tokenizer,
      maxTokens,
    });
    if (loaded.width <= 2) return new RerankModel({ ...loaded, form, dtype });
    await loaded.texts.dispose();
    throw new StartupError(
      `The graph gives ${loaded.width} logits for a pair of texts; a reranker gives 1 or 2.`,
    );
  }

  get metrics(): Registry {
    return this.#parts.texts.metrics.registry;
  }

  start(task: Task, emit: (event: RerankEvent) => void): () => void {
    requireTask(task, "rerank");
    const { texts, form } = this.#parts;
    const numTexts = task.documents.length;
    const scores = new Float32Array(numTexts);
    const query = form.encodeQuery(task.query);
    return texts.add({
      numTexts,
      beginsAlike: true,
      encode: (index) => {
        const document = form.encodeDocument(task.documents[index]!);
        return form.frame(...this.#fit(task, { query, document, index }));
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
    await this.#parts.texts.dispose();
  }

  #fit(
    { truncation, maxDocumentTokens }: RerankTask,
    pair: { query: readonly number[]; document: readonly number[]; index: number },
  ): [readonly number[], readonly number[]] {
    const { form, maxTokens } = this.#parts;
    return fitPair(pair.query, pair.document, {
      numSpecial: form.numSpecial,
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
