/**
 * Dynamic batching: runs texts of similar length from many requests in one batch, and returns a row for each text.
 *
 * Texts are tokenized in small portions between batches. So a request with thousands of texts does not delay others,
 * and its first batch runs before all of its texts are tokenized.
 *
 * @module
 */
import { COUNT_BUCKETS, MetricSet } from "../../base/metric_set.ts";
import { BusyThread, untilAborted } from "../../base/timing.ts";
import { BatchCost, type BatchLimits, type QueuedText, TextQueue } from "./text_queue.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";
import type { Registry } from "prom-client";

/** Longest time of tokenizing before the thread yields to messages. */
const ENCODE_SLICE_MS = 5;
/**
 * Longest time of tokenizing before the texts tokenized so far run as a batch. Texts that are truncated take long and
 * give few tokens.
 */
const MAX_ENCODE_MS = 50;
/** Number of texts of one job that are tokenized before it is the next job's turn. */
const TEXTS_PER_SLICE = 16;
/** Number of batches to tokenize ahead. */
const BATCHES_AHEAD = 2;
/** Like `BATCHES_AHEAD`, for padded texts: more texts to choose from make the lengths within a batch more similar. */
const PADDED_BATCHES_AHEAD = 16;

/** The texts of one request. Its functions are called between batches. */
export interface TextJob {
  /** Number of texts, at least 1. */
  readonly numTexts: number;
  /** Whether all texts begin with the same tokens, in addition to the special tokens. */
  readonly beginsAlike?: boolean | undefined;
  /** Tokenizes a text to at least one token. An error ends the job. */
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
   * @throws the errors of the job's functions and of the batch, or the signal's reason.
   */
  run(job: TextJob, signal: AbortSignal): Promise<number>;
  /** Waits for the running batch and frees the device's memory. Call it when all jobs have ended. */
  dispose(): Promise<void>;
}

/** Runs batches of texts, one at a time. */
export interface Encoder {
  /** Maximum number of texts in one batch. */
  readonly maxTexts: number;
  /** Maximum number of tokens in one batch that fit into memory; no limit if absent. */
  readonly maxTokens?: number | undefined;
  /** Whether texts are padded to the length of the longest text in the batch. */
  readonly pads: boolean;
  /** Number of elements in a row. */
  readonly width: number;
  /**
   * Runs one batch.
   *
   * @param texts 1 to `maxTexts`, each of at least one token.
   * @returns f32 `[texts, width]`, owned by the caller.
   */
  run(texts: readonly EncodedText[]): Promise<Float32Array>;
  dispose(): Promise<void>;
}

interface Running {
  readonly job: TextJob;
  readonly outcome: PromiseWithResolvers<number>;
  numEncoded: number;
  numAnswered: number;
  numTokens: number;
}

/** Runs the texts of many jobs in batches. It owns the encoder. */
export class TextBatcher implements TextRunner {
  readonly metrics: TextMetrics;
  readonly #encoder: Encoder;
  readonly #cost: BatchCost;
  readonly #queue = new TextQueue<Running>();
  /** Running jobs; the one whose texts are tokenized next comes first. */
  readonly #running = new Set<Running>();
  /** The batching loop, while there is work. */
  #loop: Promise<void> | undefined;

  constructor({ encoder, maxBatchTokens }: {
    /** The encoder, which the batcher owns. */
    readonly encoder: Encoder;
    /** Maximum number of tokens of a batch; if absent, adapted to the duration of batches. */
    readonly maxBatchTokens?: number | undefined;
  }) {
    this.#encoder = encoder;
    this.#cost = new BatchCost(maxBatchTokens);
    this.metrics = new TextMetrics(this.#queue);
  }

  async run(job: TextJob, signal: AbortSignal): Promise<number> {
    const arrivedAtMs = performance.now();
    const outcome = Promise.withResolvers<number>();
    const running: Running = { job, outcome, numEncoded: 0, numAnswered: 0, numTokens: 0 };
    this.#running.add(running);
    this.#loop ??= this.#runLoop();
    try {
      const numTokens = await untilAborted(outcome.promise, signal);
      this.metrics.promptTokens.inc(numTokens);
      this.metrics.jobSeconds.observe((performance.now() - arrivedAtMs) / 1000);
      return numTokens;
    } finally {
      this.#drop(running);
    }
  }

  async dispose(): Promise<void> {
    await this.#loop;
    await this.#encoder.dispose();
  }

  async #runLoop(): Promise<void> {
    // Requests that arrive together share the first batch.
    const thread = new BusyThread();
    await thread.yield();
    let batchDueMs = performance.now() + MAX_ENCODE_MS;
    while (this.#running.size > 0) {
      const encodesMore = this.#encodeSlice();
      if (!encodesMore || performance.now() >= batchDueMs) {
        await this.#runBatch();
        batchDueMs = performance.now() + MAX_ENCODE_MS;
      }
      // Cancellations and new requests come in between batches.
      await thread.yield();
    }
    this.#loop = undefined;
  }

  /** @returns whether there is more to tokenize before the next batch runs. */
  #encodeSlice(): boolean {
    const endMs = performance.now() + ENCODE_SLICE_MS;
    const { maxTokens } = this.#limits();
    const batchesAhead = this.#encoder.pads ? PADDED_BATCHES_AHEAD : BATCHES_AHEAD;
    const enough = batchesAhead * maxTokens;
    while (this.#queue.numTokens < enough) {
      const unencoded = [...this.#running].filter(({ job, numEncoded }) =>
        numEncoded < job.numTexts
      );
      if (unencoded.length === 0) return false;
      for (const running of unencoded) {
        if (performance.now() >= endMs) return true;
        this.#encode(running, endMs);
      }
    }
    return false;
  }

  /** Tokenizes a few texts of a job, at least one, and moves the job to the end of the queue. */
  #encode(running: Running, endMs: number): void {
    const { job, numEncoded } = running;
    const end = Math.min(job.numTexts, numEncoded + TEXTS_PER_SLICE);
    const texts: QueuedText<Running>[] = [];
    try {
      for (let index = numEncoded; index < end; index++) {
        const text = job.encode(index);
        running.numTokens += text.ids.length;
        texts.push({ owner: running, index, text });
        if (performance.now() >= endMs) break;
      }
    } catch (error) {
      return this.#fail(running, error);
    }
    running.numEncoded += texts.length;
    this.#running.delete(running);
    this.#running.add(running);
    this.#queue.add(texts);
  }

  #limits(): BatchLimits {
    const { pads, maxTexts, maxTokens = Infinity } = this.#encoder;
    const limits = this.#cost.limits(maxTexts);
    return {
      maxTexts,
      maxTokens: Math.min(limits.maxTokens, maxTokens),
      maxPadding: pads ? limits.maxPadding : undefined,
    };
  }

  /** Runs a batch of waiting texts and passes each row to its job. */
  async #runBatch(): Promise<void> {
    const batch = this.#queue.take(this.#limits());
    if (batch.length === 0) return;
    const texts = batch.map(({ text }) => text);
    const startedAtMs = performance.now();
    try {
      const rows = await this.#encoder.run(texts);
      this.#observe(texts, performance.now() - startedAtMs);
      const width = rows.length / batch.length;
      batch.forEach(({ owner, index }, row) => {
        this.#answer(owner, index, rows.subarray(row * width, (row + 1) * width));
      });
    } catch (error) {
      for (const { owner } of batch) this.#fail(owner, error);
    }
  }

  #observe(texts: readonly EncodedText[], durationMs: number): void {
    const lengths = texts.map(({ ids }) => ids.length);
    const numTokens = lengths.reduce((sum, length) => sum + length, 0);
    const numPositions = this.#encoder.pads ? Math.max(...lengths) * texts.length : numTokens;
    this.#cost.observe(numPositions, durationMs);
    const { batchSeconds, batchTexts, computedTokens, paddingTokens } = this.metrics;
    computedTokens.inc(numTokens);
    paddingTokens.inc(numPositions - numTokens);
    batchSeconds.observe(durationMs / 1000);
    batchTexts.observe(texts.length);
  }

  #answer(running: Running, index: number, row: Float32Array): void {
    if (!this.#running.has(running)) return;
    try {
      running.job.onRow(index, row);
    } catch (error) {
      return this.#fail(running, error);
    }
    if (++running.numAnswered === running.job.numTexts) running.outcome.resolve(running.numTokens);
  }

  #fail(running: Running, error: unknown): void {
    this.#drop(running);
    running.outcome.reject(error);
  }

  #drop(running: Running): void {
    this.#running.delete(running);
    this.#queue.remove(running);
  }
}

/** Prometheus metrics of embedding models and rerankers. */
class TextMetrics extends MetricSet {
  readonly promptTokens = this.counter(
    "hearth_prompt_tokens_total",
    "Tokens of answered requests.",
  );
  readonly computedTokens = this.counter(
    "hearth_batch_tokens_total",
    "Tokens in batches, without padding.",
  );
  readonly paddingTokens = this.counter(
    "hearth_batch_padding_tokens_total",
    "Padding positions in batches.",
  );
  readonly jobSeconds = this.histogram(
    "hearth_texts_seconds",
    "Time from a request's arrival to its answer.",
  );
  readonly batchSeconds = this.histogram("hearth_batch_seconds", "Duration of a batch.");
  readonly batchTexts = this.histogram(
    "hearth_batch_texts",
    "Texts in a batch.",
    COUNT_BUCKETS,
  );

  constructor(queue: TextQueue<unknown>) {
    super();
    this.gauge("hearth_texts_waiting", "Texts encoded and not yet run.", () => queue.numTexts);
    this.gauge(
      "hearth_text_tokens_waiting",
      "Tokens of the texts encoded and not yet run.",
      () => queue.numTokens,
    );
  }
}
