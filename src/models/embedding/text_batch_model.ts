/**
 * The common part of embedding models and rerankers: requests are texts, and every text gets a row of numbers.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../../config.ts";
import { emitError } from "../active_requests.ts";
import type { ErrorEvent } from "../task.ts";
import type { ModelTokenizer } from "../model_tokenizer.ts";
import type { LoadedTexts } from "./text_load.ts";
import type { TextJob } from "./text_runner.ts";

/** Requests worked on at once; their texts share batches. */
const MAX_REQUESTS = 256;

/** The shared part of embedding models and rerankers. It owns the runner. */
export class TextBatchModel {
  readonly maxSequences = MAX_REQUESTS;
  readonly dtype: Dtype;
  readonly contextLength: number | undefined;
  readonly tokenizer: ModelTokenizer;
  readonly #texts: LoadedTexts["texts"];

  constructor({ texts, dtype, maxTokens, tokenizer }: LoadedTexts) {
    this.#texts = texts;
    this.tokenizer = {
      vocabSize: tokenizer.vocabSize,
      encode: (text, hasSpecial) => {
        const ids = tokenizer.encode(text);
        return hasSpecial ? tokenizer.frame(ids).ids : ids;
      },
      decode: (ids) => tokenizer.decode(ids),
    };
    this.dtype = dtype;
    this.contextLength = maxTokens;
  }

  get metrics(): Registry {
    return this.#texts.metrics.registry;
  }

  async dispose(): Promise<void> {
    await this.#texts.dispose();
  }

  /**
   * Runs a request's texts.
   *
   * @param emit called when the request fails.
   * @returns a function that cancels the request.
   */
  protected run(
    requestId: string,
    job: Omit<TextJob, "onError">,
    emit: (event: ErrorEvent) => void,
  ): () => void {
    return this.#texts.add({
      ...job,
      onError: (error) => emitError(error, { requestId, what: "texts", emit }),
    });
  }
}
