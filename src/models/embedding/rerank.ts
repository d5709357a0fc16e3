/**
 * Rerankers: query and document are encoded together, and a few logits give the document's relevance.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { ModelProto as Graph } from "../../onnx/file/proto.ts";
import type { RerankEvent, RerankTask, Task } from "../task.ts";
import type { EncoderForm } from "./encoder_load.ts";
import { findOutput, keepOutput } from "../graph_output.ts";
import { type Model, requireTask } from "../model.ts";
import { FIRST_TOKEN } from "./packed_encoder.ts";
import { crossEncoderForm, type PairForm, yesNoRerankPrompt } from "./rerank_form.ts";
import { fitPair } from "./text_fit.ts";
import type { OpenContext } from "../family.ts";
import { type LoadedTexts, loadTexts } from "./text_load.ts";
import { TextBatchModel } from "./text_batch_model.ts";

const LOGITS = "logits/float32";

export class RerankModel extends TextBatchModel implements Model {
  readonly kind = "rerank";
  readonly #form: PairForm;
  readonly #maxTokens: number | undefined;

  private constructor(loaded: LoadedTexts, form: PairForm) {
    super(loaded);
    this.#form = form;
    this.#maxTokens = loaded.maxTokens;
  }

  /**
   * Loads a folder.
   *
   * @throws {StartupError} when the folder lacks what the model needs, or its graph is not a reranker's.
   */
  static async load(context: OpenContext): Promise<RerankModel> {
    let form: PairForm | undefined;
    const loaded = await loadTexts(context, {
      encoder: (graph, tokenizer) => {
        form = crossEncoderForm(tokenizer);
        return logitsForm(graph);
      },
      decoder: (tokenizer) => {
        const judge = yesNoRerankPrompt(tokenizer);
        form = judge;
        return judge.answers;
      },
    });
    if (loaded.width <= 2) return new RerankModel(loaded, form!);
    await loaded.texts.dispose();
    throw new StartupError(
      `The graph gives ${loaded.width} logits for a pair of texts; a reranker gives 1 or 2.`,
    );
  }

  start(task: Task, emit: (event: RerankEvent) => void): () => void {
    requireTask(task, "rerank");
    const form = this.#form;
    const numTexts = task.documents.length;
    const scores = new Float32Array(numTexts);
    const lengthOf = (param: string, mayCut = task.truncation !== undefined) => ({
      maxTokens: this.#maxTokens,
      mayCut,
      what: param,
      param,
    });
    const query = form.encodeQuery(task.query, lengthOf("query"));
    return this.run(task.requestId, {
      numTexts,
      beginsAlike: true,
      encode: (index) => {
        const mayCut = task.truncation !== undefined || task.maxDocumentTokens !== undefined;
        const length = lengthOf(`documents[${index}]`, mayCut);
        const document = form.encodeDocument(task.documents[index]!, length);
        return form.frame(...this.#fit(task, { query, document, index }));
      },
      onRow: (index, logits) => scores[index] = scoreOf(logits),
      onDone: (promptTokens) => emit({ type: "done", scores, promptTokens }),
    }, emit);
  }

  #fit(
    { truncation, maxDocumentTokens }: RerankTask,
    pair: { query: readonly number[]; document: readonly number[]; index: number },
  ): [readonly number[], readonly number[]] {
    return fitPair(pair.query, pair.document, {
      numSpecial: this.#form.numSpecial,
      maxTokens: this.#maxTokens,
      truncation,
      param: `documents[${pair.index}]`,
      maxSecond: maxDocumentTokens,
    });
  }
}

/** A graph with the logits of each pair as its only output. @throws {StartupError} when it has others. */
function logitsForm(graph: Graph): EncoderForm {
  const logits = findOutput(graph, ["logits"]);
  const shape = graph.graph.outputs.find(({ name }) => name === logits)?.shape ?? [];
  if (shape.length > 2) {
    throw new StartupError(
      `The graph gives logits of shape [${
        shape.join(", ")
      }], for each token; a reranker gives 1 or 2 for a pair of texts.`,
    );
  }
  const model = keepOutput(graph, logits, LOGITS);
  const packing = { model, output: LOGITS, summary: FIRST_TOKEN };
  return { model, output: LOGITS, packing };
}

/**
 * The probability of relevance: from one logit, or from two of which the second is for relevance.
 *
 * @throws {Error} when a logit is not finite.
 */
function scoreOf(logits: Float32Array): number {
  const logit = logits.length === 1 ? logits[0]! : logits[1]! - logits[0]!;
  if (Number.isNaN(logit)) throw new Error("The model gave a logit that is not a number.");
  return 1 / (1 + Math.exp(-logit));
}
