/**
 * What runs the texts of requests, whatever the model is made of.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { EncodedText } from "./encoder_tokenizer.ts";

/** The texts of one request. Calls come between batches, never while the request is being cancelled. */
export interface TextJob {
  /** At least 1. */
  readonly numTexts: number;
  /** Whether all texts begin alike, by more than the special tokens. */
  readonly beginsAlike?: boolean | undefined;
  /** Encodes a text, at least one token of it. What it throws ends the job. */
  encode(index: number): EncodedText;
  /** The text's row; the array is reused for nothing else. What it throws ends the job. */
  onRow(index: number, row: Float32Array): void;
  /** All rows were handed out. @param numTokens of all texts. */
  onDone(numTokens: number): void;
  /** The job is over. */
  onError(error: unknown): void;
}

/** Runs texts, those of many requests together, and gives a row of numbers for each. It owns what it runs them on. */
export interface TextRunner {
  readonly metrics: { readonly registry: Registry };
  /** Takes up a job. @returns ends it: it hears nothing more, and what has not run will not. */
  add(job: TextJob): () => void;
  /** Drops all jobs, waits for what is under way, and frees the device's memory. */
  dispose(): Promise<void>;
}
