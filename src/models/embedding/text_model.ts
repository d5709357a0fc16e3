/**
 * The common part of embedding models and rerankers: requests are texts, and every text gets a row of numbers.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../../base/config.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import type { ErrorEvent } from "../task.ts";
import type { EncodedText, EncoderTokenizer } from "./encoder_tokenizer.ts";

/** The texts of one request. Its functions are called between batches. */
export interface TextJob {
  /** Number of texts, at least 1. */
  readonly numTexts: number;
  /** Whether all texts share a prefix beyond the special tokens. */
  readonly beginsAlike?: boolean | undefined;
  /** Encodes a text to at least one token. An error ends the job. */
  encode(index: number): EncodedText;
  /** Receives a text's row; the array is not reused. An error ends the job. */
  onRow(index: number, row: Float32Array): void;
}

/** Runs texts of many requests in shared batches, on an encoder or a decoder that it owns. */
export interface TextRunner {
  readonly metrics: { readonly registry: Registry };
  /**
   * Runs a job to its end.
   *
   * @returns the number of tokens of all texts.
   * @throws the errors of the job's functions and of the batch; the signal's reason.
   */
  run(job: TextJob, signal: AbortSignal): Promise<number>;
  /** Waits for the running batch, and frees the device's memory. Call it when all jobs have ended. */
  dispose(): Promise<void>;
}

/** A loaded model that runs texts; the caller owns the runner. */
export interface LoadedTexts<Source = unknown> {
  readonly source: Source;
  readonly texts: TextRunner;
  /** Number of elements in a row. */
  readonly width: number;
  readonly tokenizer: EncoderTokenizer;
  /** Most tokens of one text; no limit if absent. */
  readonly maxTokens: number | undefined;
  readonly dtype: Dtype;
}

/** Most requests worked on at once; their texts share batches. */
const MAX_REQUESTS = 256;

/** An embedding model for text. It owns the runner. */
export class TextModel {
  readonly maxSequences = MAX_REQUESTS;
  readonly dtype: Dtype;
  readonly contextLength: number | undefined;
  readonly tokenizer: EncoderTokenizer;
  readonly metrics: Registry;
  readonly #texts: TextRunner;
  readonly #requests = new ActiveRequests();

  constructor({ texts, dtype, maxTokens, tokenizer }: LoadedTexts) {
    this.#texts = texts;
    this.metrics = texts.metrics.registry;
    this.tokenizer = tokenizer;
    this.dtype = dtype;
    this.contextLength = maxTokens;
  }

  async dispose(): Promise<void> {
    this.#requests.cancel();
    await this.#requests.settle();
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
    job: TextJob & { onDone(promptTokens: number): void },
    emit: (event: ErrorEvent) => void,
  ): () => void {
    return this.#requests.start({
      requestId,
      what: "texts",
      emit,
      answer: async (signal) => job.onDone(await this.#texts.run(job, signal)),
    });
  }
}
