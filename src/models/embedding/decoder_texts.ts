/**
 * Texts on a decoder: each is a sequence of the paged engine, which packs them without padding, computes shared
 * prefixes once, and returns the row of each one's last token.
 *
 * @module
 */
import { GREEDY } from "../../decoder/decoder.ts";
import { PagedDecoder } from "../../decoder/paged_decoder.ts";
import { RowDecoder, type RowToken } from "../../decoder/row_decoder.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { warmUp } from "../../engine/warm_up.ts";
import { StartupError } from "../../errors.ts";
import { type DecoderLoadOptions, loadDecoder } from "../decoder.ts";
import type { TextJob, TextRunner } from "./text_runner.ts";

class DecoderTexts implements TextRunner {
  readonly #decoder: RowDecoder;
  readonly #engine: EngineLoop<RowToken>;

  /** @param options.prefixCache whether texts of different requests share equal prefixes. */
  constructor(decoder: RowDecoder, options: { readonly prefixCache: boolean }) {
    this.#decoder = decoder;
    this.#engine = new EngineLoop(decoder, options);
  }

  get metrics(): EngineMetrics {
    return this.#engine.metrics;
  }

  add(job: TextJob): () => void {
    const running = new RunningJob(job, this.#engine);
    return () => running.end();
  }

  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#decoder.dispose();
  }
}

/** A running job, with no more of its texts in the engine than fit one step, so that others get their turn. */
class RunningJob {
  readonly #job: TextJob;
  readonly #engine: EngineLoop<RowToken>;
  /** By text: takes it out of the engine. */
  readonly #cancels = new Map<number, () => void>();
  #numStarted = 0;
  #numAnswered = 0;
  #numTokens = 0;
  #isOver = false;

  constructor(job: TextJob, engine: EngineLoop<RowToken>) {
    this.#job = job;
    this.#engine = engine;
    // Deferred, so that the caller gets the cancel function before any event.
    queueMicrotask(() => this.#fill());
  }

  end(): void {
    this.#isOver = true;
    for (const cancel of this.#cancels.values()) cancel();
    this.#cancels.clear();
  }

  #fill(): void {
    const { beginsAlike, numTexts } = this.#job;
    // The first text runs alone: the others then find the shared prefix in the cache.
    const isFirst = beginsAlike === true && this.#numAnswered === 0;
    const room = isFirst ? 1 : this.#engine.limits.maxSequences;
    while (!this.#isOver && this.#cancels.size < room && this.#numStarted < numTexts) {
      this.#start(this.#numStarted++);
    }
  }

  #start(index: number): void {
    try {
      const { ids } = this.#job.encode(index);
      this.#numTokens += ids.length;
      const cancel = this.#engine.add({
        promptTokens: Int32Array.from(ids),
        // Nothing is sampled, but the engine requires parameters.
        samples: [GREEDY],
        maxTokens: 1,
        topLogprobs: 0,
      }, {
        onToken: (_, { row }) => {
          this.#answer(index, row);
          return true;
        },
        onDone: () => this.#fill(),
        onError: (error) => this.#fail(error),
      });
      this.#cancels.set(index, cancel);
    } catch (error) {
      this.#fail(error);
    }
  }

  #answer(index: number, row: Float32Array): void {
    this.#cancels.delete(index);
    try {
      this.#job.onRow(index, row);
    } catch (error) {
      return this.#fail(error);
    }
    if (++this.#numAnswered < this.#job.numTexts) return;
    this.#isOver = true;
    this.#job.onDone(this.#numTokens);
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.end();
    this.#job.onError(error);
  }
}

/**
 * Loads a folder's decoder for texts instead of completions.
 *
 * @param columns which elements of each row are wanted; all if absent.
 * @throws {StartupError} when its graph cannot be cut: decoders do not run padded batches.
 */
export async function loadDecoderTexts(
  options: DecoderLoadOptions,
  columns?: readonly number[],
): Promise<{ readonly texts: TextRunner; readonly width: number; readonly maxTokens: number }> {
  const { backend, engine, folder } = options;
  const { decoder } = await loadDecoder(options);
  if (!(decoder instanceof PagedDecoder)) {
    await decoder.dispose();
    throw new StartupError(
      `The decoder in ${folder.path} cannot be cut at its attentions, which embedding and reranking with it need. ` +
        "The log says why; `inspect` tells more.",
    );
  }
  const rows = await RowDecoder.open(backend, decoder, columns);
  options.onProgress({ what: "warming up" });
  await warmUp(rows);
  const { contextLength, numBlocks, blockSize } = rows.limits;
  return {
    texts: new DecoderTexts(rows, engine),
    width: columns?.length ?? decoder.output.width,
    // The engine reserves one position for the next token.
    maxTokens: Math.min(contextLength - 1, numBlocks * blockSize),
  };
}
