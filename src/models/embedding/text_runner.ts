/**
 * The interface that runs texts of requests on an encoder or a decoder.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { EncodedText } from "./encoder_tokenizer.ts";

/** The texts of one request. Calls come between batches, never while the request is being cancelled. */
export interface TextJob {
  /** At least 1. */
  readonly numTexts: number;
  /** Whether all texts share a prefix beyond the special tokens. */
  readonly beginsAlike?: boolean | undefined;
  /** Encodes a text to at least one token. An error ends the job. */
  encode(index: number): EncodedText;
  /** Receives the text's row; the array is not reused. An error ends the job. */
  onRow(index: number, row: Float32Array): void;
  /** All rows were delivered. @param numTokens of all texts. */
  onDone(numTokens: number): void;
  /** The job failed. */
  onError(error: unknown): void;
}

/** Runs texts of many requests in shared batches, and returns a row of numbers for each. It owns the model. */
export interface TextRunner {
  readonly metrics: { readonly registry: Registry };
  /** Starts a job. @returns a function that cancels it: no further calls, and no further texts run. */
  add(job: TextJob): () => void;
  /** Cancels all jobs, waits for the running batch, and frees the device's memory. */
  dispose(): Promise<void>;
}
